"""A message as a consumer gets it: the record's bytes, taken apart when asked."""

from __future__ import annotations

import functools
import struct

from ..store.errors import Corrupt
from ..store.ids import Host, encode_message_id
from ..store.properties import KEYS, TAGS, UNIQ_KEY, decode_properties
from ..store.record import MAGIC_V2, SYS_BORN_V6, SYS_STORE_V6, decode_record

_FIXED = struct.Struct(">iIiiiqqiq")


class MessageView:
    """One message of a queue. Times are epoch ms; `body` is bytes; `properties` hold tags, keys and
    the rest.
    """

    __slots__ = ("__dict__", "_record", "queue_offset")

    def __init__(self, record: bytes, queue_offset: int) -> None:
        self._record = record
        self.queue_offset = queue_offset

    @functools.cached_property
    def _head(self) -> tuple[int, ...]:
        return _FIXED.unpack_from(self._record)

    @functools.cached_property
    def _places(self) -> tuple[int, int, int, int]:
        """(born host length, store host length, position of the body, position behind it)."""
        flags = self._head[7]
        born = 20 if flags & SYS_BORN_V6 else 8
        host = 20 if flags & SYS_STORE_V6 else 8
        body = 48 + born + 8 + host + 16
        return born, host, body, body + int.from_bytes(self._record[body - 4 : body], "big")

    @functools.cached_property
    def _topic_and_properties(self) -> tuple[str, dict[str, str]]:
        at = self._places[3]
        width = 2 if self._head[1] == MAGIC_V2 else 1
        length = int.from_bytes(self._record[at : at + width], "big")
        at += width
        topic = self._record[at : at + length].decode()
        return topic, decode_properties(self._record[at + length + 2 :])

    def check(self) -> None:
        """Raises Corrupt unless the bytes are a whole record of this queue offset whose body passes
        its BODYCRC. Nothing else looks: reading is as fast as copying.
        """
        record = decode_record(self._record, 0, check_crc=True)
        if (record.total_size, record.queue_offset) != (len(self._record), self.queue_offset):
            raise Corrupt(
                "",
                record.physical_offset,
                f"queue offset {self.queue_offset} of the queue leads to {len(self._record)} bytes,"
                f" the record has {record.total_size} and queue offset {record.queue_offset}",
            )

    @property
    def body(self) -> bytes:
        _, _, start, end = self._places
        return self._record[start:end]

    @property
    def topic(self) -> str:
        return self._topic_and_properties[0]

    @property
    def properties(self) -> dict[str, str]:
        return self._topic_and_properties[1]

    @property
    def tags(self) -> str | None:
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        return [key for key in self.properties.get(KEYS, "").split(" ") if key]

    @property
    def message_id(self) -> str | None:
        """The UNIQ_KEY that the producer gave it."""
        return self.properties.get(UNIQ_KEY)

    @property
    def offset_message_id(self) -> str:
        return encode_message_id(self.store_host, self.physical_offset)

    @property
    def queue_id(self) -> int:
        return self._head[3]

    @property
    def flag(self) -> int:
        return self._head[4]

    @property
    def physical_offset(self) -> int:
        return self._head[6]

    @property
    def sys_flag(self) -> int:
        return self._head[7]

    @property
    def born_timestamp(self) -> int:
        return self._head[8]

    @property
    def born_host(self) -> Host:
        return Host.unpack(self._record[48 : 48 + self._places[0]])

    @property
    def store_timestamp(self) -> int:
        at = 48 + self._places[0]
        return int.from_bytes(self._record[at : at + 8], "big")

    @property
    def store_host(self) -> Host:
        at = 56 + self._places[0]
        return Host.unpack(self._record[at : at + self._places[1]])

    @property
    def reconsume_times(self) -> int:
        at = self._places[2] - 16
        return int.from_bytes(self._record[at : at + 4], "big", signed=True)

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return len(self._record)

    def __repr__(self) -> str:
        return (
            f"MessageView({self.topic}[{self.queue_id}]@{self.queue_offset}, "
            f"{len(self.body)} bytes)"
        )
