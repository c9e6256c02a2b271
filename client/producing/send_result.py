"""What a send brings back."""

from __future__ import annotations

from array import array
from typing import Literal

from ...store.record.ids import Host, encode_offset_message_id
from ...store.status import AckLevel, PutMessageStatus

# Plain numbers: looked at for every message.
_APPENDED, _DURABLE = int(AckLevel.APPENDED), int(AckLevel.DURABLE)
_LEVELS: dict[int, Literal["memory", "appended", "durable"]] = {
    AckLevel.APPENDED: "appended",
    AckLevel.DURABLE: "durable",
    AckLevel.MEMORY: "memory",
}


class SendResult:
    """The store's answer to one message or batch.

    `status` is PUT_OK or FLUSH_DISK_TIMEOUT. `queue_offset` and `physical_offset` are those of the
    first message, `store_timestamp` is epoch ms. A batch's messages follow each other in queue and
    log.
    """

    __slots__ = (
        "_key",
        "_lengths",
        "_level",
        "_store_host",
        "count",
        "physical_offset",
        "queue_id",
        "queue_offset",
        "status",
        "store_timestamp",
        "topic",
    )

    def __init__(  # noqa: PLR0917 - the kernel's call, on every send's path: names cost time
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
        reached = level != _DURABLE or status == PutMessageStatus.PUT_OK
        self._level = level if reached else _APPENDED

    @property
    def level(self) -> Literal["memory", "appended", "durable"]:
        """What the answer means: `memory` (in the transient pool) and `appended` (in the page
        cache) survive the death of all processes, `durable` survives a power cut.
        """
        return _LEVELS[self._level]

    @property
    def message_ids(self) -> list[str]:
        """The UNIQ_KEY of every message: the kernel's counting, done again."""
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
