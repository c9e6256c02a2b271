from typing import Any

from typing_extensions import Buffer

from ...store.record.ids import Host

class Memory:
    source: Any
    base: int
    end: int
    path: str
    queue: tuple[str, int] | None
    def __init__(
        self,
        source: Buffer,
        base: int = 0,
        path: str = "",
        queue: tuple[str, int] | None = None,
    ) -> None: ...

class MessageView:
    """One message of a queue (RocketMQ: `MessageExt`). The properties say for each value its type,
    its unit, and the field of the record (`store/record/format.py`) or the property it comes from.
    Text that is not UTF-8 has U+FFFD in its place.

    A view copies nothing until a value is asked for. It keeps its commit-log file mapped, even when
    the store has removed that file: the message stays readable, and the file's disk space stays in
    use. To keep a message for long, keep a copy (`copy.copy`, or a pickled one). A damaged record
    raises Corrupt from the property that is asked for.

    Made of `record`, the bytes of one whole record, and its `queue_offset`; in another queue than
    the record's own also of that `queue`. Raises IllegalArgument for no bytes at all, IllegalType
    for anything that is not bytes-like, and for a queue that is no tuple.
    """
    def __init__(
        self,
        record: Buffer | Memory,
        queue_offset: int,
        queue: tuple[str, int] | None = None,
    ) -> None: ...
    def check(self) -> None:
        """Raises Corrupt unless the bytes are a whole record of this queue offset, its body matches
        BODYCRC, and its record checksum matches if it has one. Nothing else in this class checks
        them, because that would cost more than reading. A message of light queues (LMQ) has an
        offset in each of them.
        """
    @property
    def queue_offset(self) -> int:
        """int: the message's index in its queue, from the queue entry that led to it. The record's
        `queueOffset` is the same, unless the record is damaged (`check` compares them).
        """
    @property
    def queue(self) -> tuple[str, int]:
        """tuple[str, int]: the queue through which the message was read, and in which
        `queue_offset` counts: (`topic`, `queue_id`), or a light queue (LMQ) of the message and 0.
        """
    @property
    def place(self) -> int:
        """int: the commit-log offset (bytes) at which the record was found; 0 for a message that
        was made of bytes. `physical_offset` is what the record itself says.
        """
    @property
    def record(self) -> bytes:
        """bytes: the whole record as it is in the commit log (`store/record/format.py`).
        A copy.
        """
    @property
    def body(self) -> bytes:
        """bytes: the body as the producer's caller gave it. If the producer compressed it
        (`sys_flag` & 1), each access decompresses it anew, and raises BadBody if that fails. A
        copy.
        """
    @property
    def raw_body(self) -> bytes:
        """bytes: the body as it is in the log; a compressed one stays compressed. A copy."""
    @property
    def topic(self) -> str:
        """str: the topic whose queue holds the message. Of a message that was sent back this is
        `%RETRY%group` or `%DLQ%group`; see `origin_topic`.
        """
    @property
    def origin_topic(self) -> str:
        """str: the topic that the message was first sent to. The property RETRY_TOPIC if the
        message was sent back or is a dead letter, otherwise `topic`.
        """
    @property
    def properties(self) -> dict[str, str]:
        """dict[str, str]: all properties, with TAGS, KEYS and UNIQ_KEY among them; of a name that
        occurs twice the last value. Each access makes a new dict.
        """
    @property
    def tags(self) -> str | None:
        """str | None: the property TAGS; None without one."""
    @property
    def keys(self) -> list[str]:
        """list[str]: the property KEYS, split at spaces; empty without one."""
    @property
    def message_id(self) -> str | None:
        """str | None: the property UNIQ_KEY, the id that the producer gave the message (RocketMQ's
        `msgId`). None without one.
        """
    @property
    def offset_message_id(self) -> str:
        """str: the store's host and `physical_offset` in upper-case hex (RocketMQ's `offsetMsgId`):
        32 digits with an IPv4 host, 56 with IPv6. Derived, not stored.
        """
    @property
    def queue_id(self) -> int:
        """int: the queue of the topic, from 0 on (the record's `queueId`)."""
    @property
    def flag(self) -> int:
        """int (signed, 32 bits): a number of the application's own (the record's `flag`)."""
    @property
    def physical_offset(self) -> int:
        """int: the record's address in the commit log, in bytes, as the record says
        (`physicalOffset`).
        """
    @property
    def sys_flag(self) -> int:
        """int (32 bits): what the record and its body are, bit by bit (`SYS_*` in
        `store/record/format.py`; the record's `sysFlag`). As it is stored: bit 0 says what
        `raw_body` is. RocketMQ's decoder clears that bit since 5.x, and keeps it in 4.9.
        """
    @property
    def born_timestamp(self) -> int:
        """int: when the producer made the message, epoch ms by its own clock (`bornTimestamp`)."""
    @property
    def born_host(self) -> Host:
        """Host: address and port of the producer (`bornHost`); IPv6 if `sys_flag` & 0x10. Its str
        is ADDRESS:PORT or [IPV6]:PORT.
        """
    @property
    def store_timestamp(self) -> int:
        """int: when the store appended the message, epoch ms by the store's clock, which never
        steps back (`storeTimestamp`).
        """
    @property
    def store_host(self) -> Host:
        """Host: address and port of the store (`storeHost`); IPv6 if `sys_flag` & 0x20."""
    @property
    def reconsume_times(self) -> int:
        """int: how often the message was sent back to its consumer group (`reconsumeTimes`); 0 for
        a message as its producer sent it.
        """
    @property
    def size(self) -> int:
        """int: bytes of the whole record (`totalSize`)."""
