"""A message that a consumer could not process, and a delayed one that is recalled."""

from __future__ import annotations

import random
import time
from typing import Final

import msgspec

from ...client.consuming.message_view import MessageView
from ...client.groups.retry import FIRST_RETRY_LEVEL
from ...client.producing.message_properties import Delayed, timer_out_ms
from ...client.producing.recall_handle import Handle
from ...store.errors import IllegalQuery, MessageNotFound
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...store.record.format import encode_record
from ...store.record.ids import Host
from ...store.record.properties import (
    CRC32,
    DELAY,
    MULTI_QUEUE_OFFSET,
    ORIGIN_MESSAGE_ID,
    REAL_QID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TAGS,
    UNIQ_KEY,
    WAIT,
    encode_properties,
)
from ...store.status import PutMessageStatus
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from .calls import Call, Handlers, Refused, code_of
from .parts import Parts

_LIMIT_VERSION: Final = 121
_RECALL_TAG: Final = "_RECALL_TAG_"


class _Back(msgspec.Struct, rename="camel"):
    offset: int
    group: str
    delay_level: int
    max_reconsume_times: int | None = None


class _Recall(msgspec.Struct, rename="camel"):
    topic: str
    recall_handle: str


class SendBackProcessor:
    """Stores messages again for their groups, and cancels of delayed ones."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back,
            RequestCode.RECALL_MESSAGE: self.recall,
        }

    async def send_back(self, call: Call) -> Command:
        """Stores a message again, for the group's retry topic after a delay, or after its last try
        for the group's dead letters.
        """
        parts, request = self._parts, call.request
        header = parse(_Back, request.fields)
        group = header.group
        settings = await parts.topics.group(
            group, make=parts.settings.auto_create_subscription_group
        )
        if not settings.known:
            why = f"subscription group not exist, {group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        if settings.retry_queue_nums <= 0:
            return request.answer()
        topic = await parts.topics.retry(group)
        try:
            message = MessageView(parts.reading.record_at(header.offset), 0)
        except MessageNotFound as error:
            why = f"look message by offset failed, {header.offset}: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why) from error
        call.grant.demand_reading(message.topic)
        most = settings.retry_max_times
        if request.version >= _LIMIT_VERSION and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        if message.reconsume_times >= most or header.delay_level < 0:
            topic = await parts.topics.retry(group, dead=True)
            await self.store(message, topic, 0, {})
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
            level = min(level, parts.link.connection.config.delay_levels)
            queues = len(await parts.topics.route(topic))
            queue = random.randrange(queues)  # noqa: S311 - any queue will do
            pairs = {REAL_TOPIC: topic, DELAY: str(level), REAL_QID: str(queue)}
            where = Delayed(SCHEDULE_TOPIC, topic)
            await self.store(message, where, level - 1, pairs)
        parts.statistics.sent_back(message.topic, group)
        return request.answer()

    async def store(
        self, message: MessageView, where: str | Delayed, queue_id: int, pairs: dict[str, str]
    ) -> None:
        """Stores a message again, with these properties in the place of its delay's."""
        parts = self._parts
        topic = where.system if isinstance(where, Delayed) else where
        config = parts.link.connection.config
        properties = dict(message.properties)
        for name in (CRC32, MULTI_QUEUE_OFFSET, DELAY, REAL_TOPIC, REAL_QID):
            properties.pop(name, None)
        properties.setdefault(RETRY_TOPIC, message.topic)
        properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
        properties[WAIT] = "false"
        record = encode_record(
            topic=topic.encode(),
            body=message.raw_body,
            properties=encode_properties({**properties, **pairs}),
            queue_id=queue_id,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=Host.unpack(config.store_host),
            reconsume_times=message.reconsume_times + 1,
            record_crc=config.append_crc,
            max_message_size=config.max_message_size,
        )
        await self._put(where, queue_id, record)

    async def _put(self, where: str | Delayed, queue_id: int, record: bytes) -> None:
        """Puts a record. Raises Refused unless it was stored."""
        parts = self._parts
        slots = await parts.topics.route(where)
        sent = await parts.sending.put(record, 1, slots[queue_id], wait=False)
        if sent.status != PutMessageStatus.PUT_OK:
            error = parts.sending.why(sent.status)
            raise Refused(code_of(error.status), error.why)

    async def recall(self, call: Call) -> Command:
        """Cancels a message that waits for its time: the cancel is a message itself."""
        parts = self._parts
        header = parse(_Recall, call.request.fields)
        if not parts.settings.recall_message_enable:
            raise Refused(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        try:
            handle = Handle.decode(header.recall_handle)
        except IllegalQuery as error:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, str(error)) from error
        if handle.topic != header.topic:
            why = f"recall failed, the handle is of topic {handle.topic}"
            raise Refused(ResponseCode.ILLEGAL_OPERATION, why)
        now = time.time_ns() // 1_000_000
        if handle.due_ms <= now:
            why = f"recall failed, the message was due {now - handle.due_ms} ms ago"
            raise Refused(ResponseCode.ILLEGAL_OPERATION, why)
        properties = {
            UNIQ_KEY: handle.key,
            TAGS: _RECALL_TAG,
            REAL_TOPIC: handle.topic,
            REAL_QID: "0",
            "TIMER_OUT_MS": str(timer_out_ms(handle.due_ms)),
            "TIMER_DELIVER_MS": str(handle.due_ms),
            "TIMER_DEL_UNIQKEY": f"{handle.topic}+{handle.key}",
        }
        config = parts.link.connection.config
        record = encode_record(
            topic=TIMER_TOPIC.encode(),
            body=b"0",
            properties=encode_properties(properties),
            born_timestamp=now,
            born_host=Host.unpack(call.connection.host),
            store_host=Host.unpack(config.store_host),
            record_crc=config.append_crc,
        )
        await self._put(Delayed(TIMER_TOPIC, handle.topic), 0, record)
        return call.request.answer(fields={"msgId": handle.key})
