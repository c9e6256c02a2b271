"""Look-ups by key and by offset (RocketMQ's QueryMessageProcessor)."""

from __future__ import annotations

import msgspec

from ...client.consuming.message_view import MessageView
from ...store.errors import MessageNotFound
from ...store.record.properties import MAX_PROPERTIES_BYTES
from ..link.reading import MOST_OF_A_UNIQUE_KEY
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from .calls import Call, Handlers, Refused
from .parts import Parts


class _ByKey(msgspec.Struct, rename="camel"):
    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int


class _ByOffset(msgspec.Struct):
    offset: int


class LookUpProcessor:
    """Finds stored messages."""

    def __init__(self, parts: Parts) -> None:
        self._reading = parts.reading

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_offset,
        }

    async def by_key(self, call: Call) -> Command:
        """The messages of a topic with a key, or a UNIQ_KEY."""
        header = parse(_ByKey, call.request.fields)
        unique = call.request.fields.get("_UNIQUE_KEY_QUERY", "").lower() == "true"
        most = MOST_OF_A_UNIQUE_KEY if unique else max(1, header.max_num)
        begin, end = max(0, header.begin_timestamp), header.end_timestamp
        if len(header.topic) + len(header.key) > MAX_PROPERTIES_BYTES:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, "no message has such a long key")
        records, updated, offset = self._reading.by_key(header.topic, header.key, most, begin, end)
        if not records:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range")
        fields = {
            "indexLastUpdateTimestamp": str(updated),
            "indexLastUpdatePhyoffset": str(offset),
        }
        return call.request.answer(fields=fields, body=b"".join(records))

    async def by_offset(self, call: Call) -> Command:
        """The message that begins at a log offset."""
        header = parse(_ByOffset, call.request.fields)
        try:
            record = self._reading.record_at(header.offset)
        except MessageNotFound as error:
            why = f"can not find message by the offset, {header.offset}: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why) from error
        call.grant.demand_reading(MessageView(record, 0).topic)
        return call.request.answer(body=record)
