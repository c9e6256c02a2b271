"""`SendResult`: the store's answer to a send."""

from __future__ import annotations

from array import array
from typing import Literal

from ...store.record.ids import Host, encode_offset_message_id
from ...store.status import AckLevel, PutMessageStatus
from .recall_handle import Handle

# Plain numbers, because enums are slow and every message is checked.
_APPENDED, _DURABLE = int(AckLevel.APPENDED), int(AckLevel.DURABLE)
_LEVELS: dict[int, Literal["memory", "appended", "durable"]] = {
    AckLevel.APPENDED: "appended",
    AckLevel.DURABLE: "durable",
    AckLevel.MEMORY: "memory",
}


class SendResult:
    """The store's answer to one message or batch (RocketMQ: `SendResult`, `PutMessageResult`).

    - `status`: PUT_OK, or FLUSH_DISK_TIMEOUT if it was appended, but not synced in time;
    - `topic`, `queue_id`: where it is; of a delayed message, where it waits;
    - `queue_offset`: its index in the queue; of a batch, the first message's, which the others
      follow without a gap;
    - `physical_offset`: its address in the commit log, bytes; of a batch, the first message's;
    - `store_timestamp`: when it was appended, epoch ms;
    - `count`: the number of messages, 1 unless a batch was sent.
    """

    __slots__ = (
        "_key",
        "_lengths",
        "_level",
        "_store_host",
        "_timer",
        "count",
        "physical_offset",
        "queue_id",
        "queue_offset",
        "status",
        "store_timestamp",
        "topic",
    )

    def __init__(  # noqa: PLR0917 - called for every send: arguments with names take longer
        self,
        status: PutMessageStatus,
        topic: str,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
        count: int,
        key: tuple[bytes, int, int, int],
        lengths: bytes | None,
        store_host: bytes,
        level: int,
    ) -> None:
        self.status = status
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.store_timestamp = store_timestamp
        self.count = count
        self._key = key
        self._lengths = lengths
        self._store_host = store_host
        self._timer: tuple[str, int] | None = None  # where and when it will be delivered
        reached = level != _DURABLE or status == PutMessageStatus.PUT_OK
        self._level = level if reached else _APPENDED

    @property
    def level(self) -> Literal["memory", "appended", "durable"]:
        """What the answer promises: `memory` (in the transient pool) and `appended` (in the page
        cache) survive the death of all processes, `durable` survives a power cut.
        """
        return _LEVELS[self._level]

    @property
    def message_ids(self) -> list[str]:
        """The UNIQ_KEY of every message, 32 hexadecimal digits, in the order of sending."""
        # The encoder counts in the same way (_encode.pyx, fill_key).
        prefix, time, counter, wrap = self._key
        found = []
        for _ in range(self.count):
            counter = (counter + 1) & 0xFFFF
            if counter == wrap:
                time += 1
            found.append(f"{prefix.decode()}{time:08X}{counter:04X}")
        return found

    @property
    def message_id(self) -> str:
        """RocketMQ's msgId: the UNIQ_KEY, for a batch all of them joined with commas."""
        return ",".join(self.message_ids)

    @property
    def recall_handle(self) -> str | None:
        """RocketMQ's recallHandle: what `Producer.cancel` takes, also in another process. None
        unless the message waits for a time of its own (`deliver_at`, `delay_ms`).
        """
        return None if self._timer is None else Handle(*self._timer, self.message_id).encoded()

    @property
    def offset_message_id(self) -> str:
        """RocketMQ's offsetMsgId: store host and physical offset, for a batch all of them joined
        with commas.
        """
        host = Host.unpack(self._store_host)
        offsets = [self.physical_offset]
        if self._lengths is not None:
            for length in array("I", self._lengths)[:-1]:
                offsets.append(offsets[-1] + length)
        return ",".join(encode_offset_message_id(host, offset) for offset in offsets)

    def __repr__(self) -> str:
        return (
            f"SendResult({self.status.name}, {self.topic}[{self.queue_id}]@{self.queue_offset}, "
            f"physical_offset={self.physical_offset}, count={self.count})"
        )
