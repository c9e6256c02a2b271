"""A stored message as somebody read it, in one form: by our consumers, from the log's files, or by
RocketMQ; and what must be read there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from support.load.messages import KINDS, Content, body_of

from silomq.store.record.format import LAYOUT
from silomq.store.record.ids import Host

if TYPE_CHECKING:
    from support.checking.sent import Ack, Begun, Key

    from silomq import MessageView
    from silomq.store.record.format import Record

OUR_HOST = "127.0.0.1:10911"
#: A producer stamps a message before the store does; a kill of everything may lie between.
BORN_BEFORE_MS = 60_000


@dataclass(frozen=True)
class Stored:
    """One message. Times are epoch ms, hosts "address:port"."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    offset_message_id: str
    store_timestamp: int
    sha256: str
    properties: dict[str, str]
    flag: int
    reconsume_times: int
    store_host: str
    born_timestamp: int
    born_host: str

    @classmethod
    def of_view(cls, view: MessageView) -> Self:
        """What a consumer gave. The record's own queue offset must be that of its queue entry."""
        at, size = LAYOUT["queueOffset"]
        assert int.from_bytes(view.record[at : at + size], "big") == view.queue_offset
        return cls(
            view.topic,
            view.queue_id,
            view.queue_offset,
            view.physical_offset,
            view.offset_message_id,
            view.store_timestamp,
            hashlib.sha256(view.raw_body).hexdigest(),
            view.properties,
            view.flag if view.flag < 1 << 31 else view.flag - (1 << 32),
            view.reconsume_times,
            str(view.store_host),
            view.born_timestamp,
            str(view.born_host),
        )

    @classmethod
    def of_record(cls, record: Record) -> Self:
        """What the plain decoder read in the log."""
        return cls(
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.physical_offset,
            record.offset_message_id,
            record.store_timestamp,
            hashlib.sha256(record.body).hexdigest(),
            record.properties,
            record.flag,
            record.reconsume_times,
            str(record.store_host),
            record.born_timestamp,
            str(record.born_host),
        )

    @classmethod
    def of_line(cls, line: dict[str, Any]) -> Self:
        """What RocketMQ read: a `msg` line of its dump."""
        return cls(
            line["topic"],
            line["queueId"],
            line["queueOffset"],
            line["commitLogOffset"],
            line["msgId"],
            line["storeTimestamp"],
            line["bodySha256"],
            line["properties"],
            line["flag"],
            line["reconsumeTimes"],
            str(Host.parse(line["storeHost"])),
            line["bornTimestamp"],
            str(Host.parse(line["bornHost"])),
        )

    @property
    def unique_key(self) -> str | None:
        return self.properties.get("UNIQ_KEY")


@dataclass(frozen=True)
class Known:
    """What must be read of one message; None: nobody knows. The fields are those of Stored, and
    the producer's key where one of ours sent it.
    """

    key: Key | None
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    offset_message_id: str
    store_timestamp: int
    sha256: str
    unique_key: str | None
    properties: dict[str, str] | None
    flag: int
    reconsume_times: int = 0
    store_host: str = OUR_HOST
    born_timestamp: int | None = None
    born_host: str | None = None

    @property
    def keys(self) -> list[str]:
        """What the index leads from."""
        assert self.properties is not None
        unique = [self.unique_key] if self.unique_key else []
        return [*unique, *self.properties.get("KEYS", "").split()]

    def check(self, found: Stored) -> None:
        """Asserts that what was read is this message, in every field that is known."""
        wanted = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "key" and getattr(self, field.name) is not None
        }
        assert {name: getattr(found, name) for name in wanted} == wanted
        if self.born_timestamp is None:
            age = found.store_timestamp - found.born_timestamp
            assert 0 <= age < BORN_BEFORE_MS, (self, found.born_timestamp)
        if self.born_host is None:
            assert found.born_host.startswith("127.0.0.1:"), (self, found.born_host)


def content_of(begun: Begun) -> Content:
    """What was given to the producer."""
    if not begun.kind:
        return Content(body_of(begun.producer, begun.sequence))
    return KINDS[begun.kind](begun.producer, begun.sequence)


def known_of(begun: Begun, answer: Ack | Stored, unique_key: str | None) -> Known:
    """A message of ours, at the place that the store's answer names; without one, that it has."""
    content = content_of(begun)
    properties = content.stored_properties
    if unique_key is not None:
        properties["UNIQ_KEY"] = unique_key
    return Known(
        begun.key,
        begun.topic,
        begun.queue_id,
        answer.queue_offset,
        answer.physical_offset,
        answer.offset_message_id,
        answer.store_timestamp,
        content.sha256,
        unique_key,
        properties if begun.kind else None,
        content.flag,
        born_timestamp=content.born,
    )
