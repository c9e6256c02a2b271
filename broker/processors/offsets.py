"""Offsets of groups, and of queues by time (RocketMQ's ConsumerManageProcessor and a part of
AdminBrokerProcessor).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ..link.progress import WithAnother
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from .calls import Call, Handlers, Refused
from .parts import Parts


class _Queue(msgspec.Struct, rename="camel"):
    topic: str
    queue_id: int


class _Query(_Queue, rename="camel"):
    consumer_group: str
    set_zero_if_not_found: bool = False


class _Update(_Queue, rename="camel"):
    consumer_group: str
    commit_offset: int


class _Search(_Queue, rename="camel"):
    timestamp: int
    boundary_type: Literal["lower", "upper", "LOWER", "UPPER"] = "lower"


class OffsetProcessor:
    """Answers where groups are, and where queues begin and end."""

    def __init__(self, parts: Parts) -> None:
        self._link = parts.link
        self._topics = parts.topics
        self._reading = parts.reading
        self._progress = parts.progress
        self._shared = parts.progress.shared
        self._consumers = parts.consumers

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.most,
            RequestCode.GET_MIN_OFFSET: self.least,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest,
        }

    async def query(self, call: Call) -> Command:
        """Where a group is in a queue (3.4 says what a group gets that has not begun there)."""
        header = parse(_Query, call.request.fields)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        found = self._link.find(topic)
        there = found is not None and 0 <= queue_id < len(found.slots)
        if there and self._consumers.is_sharing(group, call.connection):
            # An error would have clients before RocketMQ 5 begin at the queue's end. A client that
            # gets no answer in time tries again.
            await self._progress.settle(group)
            if not await self._shared.wait(group, (topic, queue_id), call.connection):
                raise WithAnother(group, (topic, queue_id))
            self._shared.began(call.connection, group, (topic, queue_id))
        offset = await self._progress.query(group, topic, queue_id)
        if offset is None and header.set_zero_if_not_found:
            offset = 0
        if offset is None:
            least, end = self._reading.bounds(topic, queue_id)
            if least == 0 < end and self._reading.is_in_memory(topic, queue_id, 0):
                offset = 0
        if offset is None:
            why = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, why)
        return call.request.answer(fields={"offset": str(offset)})

    async def update(self, call: Call) -> Command:
        """Notes where a group is in a queue."""
        header = parse(_Update, call.request.fields)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        # The file of a store that has died takes offsets too, and a new one would not know them.
        self._link.check()
        found = self._link.find(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if not 0 <= queue_id < len(found.slots):
            why = f"queueId {queue_id} of topic {topic}: it has {len(found.slots)} queues"
            raise Refused(ResponseCode.INVALID_PARAMETER, why)
        if not (await self._topics.group(group, make=False)).known:
            why = f"Group {group} not exist!"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        if (group, topic, queue_id) in self._progress.resets:
            return call.request.answer(remark="Offset has been previously reset")
        await self._progress.commit(group, topic, queue_id, header.commit_offset)
        self._shared.committed(call.connection, group, (topic, queue_id))
        self._progress.give_back()
        return call.request.answer()

    async def search(self, call: Call) -> Command:
        """The queue offset that belongs to a time."""
        header = parse(_Search, call.request.fields)
        upper = header.boundary_type.lower() == "upper"
        offset = self._reading.offset_at(
            header.topic, header.queue_id, max(0, header.timestamp), "upper" if upper else "lower"
        )
        return call.request.answer(fields={"offset": str(offset)})

    async def most(self, call: Call) -> Command:
        """The queue offset that the next message gets."""
        header = parse(_Queue, call.request.fields)
        _, end = self._reading.bounds(header.topic, header.queue_id)
        return call.request.answer(fields={"offset": str(end)})

    async def least(self, call: Call) -> Command:
        """The queue offset of the first message."""
        header = parse(_Queue, call.request.fields)
        least, _ = self._reading.bounds(header.topic, header.queue_id)
        return call.request.answer(fields={"offset": str(least)})

    async def earliest(self, call: Call) -> Command:
        """When the first message was stored."""
        header = parse(_Queue, call.request.fields)
        found = self._reading.earliest_ms(header.topic, header.queue_id)
        return call.request.answer(fields={"timestamp": str(found)})
