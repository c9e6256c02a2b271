"""Offsets of groups: set, copied and listed."""

from __future__ import annotations

from typing import Final

import msgspec

from ...shm.protocol.requests import Reset
from ...store.topics.topic_table import Topic
from ..processors.calls import Call, Handlers, Refused
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from ..wire.route_data import Bare
from .paging import NO_VERSION, version_bean
from .tools import Tools

_LARGEST: Final = 2**63 - 1


class _Reset(msgspec.Struct, rename="camel"):
    topic: str
    group: str
    timestamp: int
    queue_id: int = -1
    offset: int | None = None


class _Clone(msgspec.Struct, rename="camel"):
    src_group: str
    dest_group: str
    topic: str = ""
    offline: bool = False


class _Correction(msgspec.Struct, rename="camel"):
    compare_group: str
    topic: str
    filter_groups: str = ""


class OffsetAdmin(Tools):
    """Offsets, as tools set and see them."""

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_of,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delays,
            RequestCode.GET_TIMER_CHECK_POINT: self.timers,
        }

    async def reset(self, call: Call) -> Command:
        """Sets a group's offsets in a topic: its next pulls are told where to go on."""
        parts = self._parts
        header = parse(_Reset, call.request.fields)
        topic = self._topic(header.topic)
        if not (await parts.topics.group(header.group, make=False)).known:
            why = f"Group {header.group} does not exist"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        ids = range(topic.read_queue_nums) if header.queue_id < 0 else [header.queue_id]
        offsets = {queue_id: self._target(header, queue_id) for queue_id in ids}
        await self._set(header.group, header.topic, offsets)
        name = parts.settings.broker_name
        table = {
            route_data.queue_key(name, header.topic, queue_id): offset
            for queue_id, offset in offsets.items()
        }
        return call.request.answer(body=route_data.encode({"offsetTable": table}))

    def _topic(self, name: str) -> Topic:
        topic = self._parts.link.find(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} does not exist")
        return topic

    def _target(self, header: _Reset, queue_id: int) -> int:
        """Where a queue is to go on. Raises Refused for an offset that it does not have."""
        reading = self._parts.reading
        least, end = reading.bounds(header.topic, queue_id)
        if header.offset is not None and header.offset >= 0:
            if not least <= header.offset <= end:
                why = f"offset {header.offset}: queue {queue_id} has {least} to {end}"
                raise Refused(ResponseCode.SYSTEM_ERROR, why)
            return header.offset
        if header.timestamp < 0:
            return end
        return min(end, reading.offset_at(header.topic, queue_id, header.timestamp, "lower"))

    async def _set(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Sets offsets, durably. Members of the group learn of them. Raises Refused."""
        parts = self._parts
        answer = await parts.link.ask(Reset(group, topic, offsets))
        if answer.wait:
            why = f"group {group} has members that are clients of the store: try again"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        if parts.consumers.has_members(group):
            for queue_id, offset in offsets.items():
                if parts.progress.shared.refuses(group, (topic, queue_id)):
                    continue  # its reader has been told by the store
                parts.progress.resets[group, topic, queue_id] = offset

    async def clone(self, call: Call) -> Command:
        """Sets a group to where another one is, in one topic or in all. Topics that a connected
        group does not subscribe to are left out, unless the tool says that the group is offline.
        """
        header = parse(_Clone, call.request.fields)
        offsets = await self._listings.offsets(header.src_group)
        group = self._parts.consumers.get(header.dest_group)
        for topic, queues in offsets.items():
            found = self._parts.link.find(topic)
            if header.topic not in ("", topic) or found is None:
                continue
            if not header.offline and group is not None and topic not in group.subscriptions:
                continue
            inside = {n: self._within(topic, n, at) for n, at in queues.items()}
            there = {n: at for n, at in inside.items() if n < len(found.slots)}
            if there:
                await self._set(header.dest_group, topic, there)
        return call.request.answer()

    def _within(self, topic: str, queue_id: int, offset: int) -> int:
        """The offset, or the nearest that the queue has."""
        least, end = self._parts.reading.bounds(topic, queue_id)
        return max(least, min(end, offset))

    async def correction(self, call: Call) -> Command:
        """The least offsets of all groups in a topic, but for those named. Where the other group is
        ahead of them nothing is to be corrected.
        """
        header = parse(_Correction, call.request.fields)
        left_out = set(header.filter_groups.split(","))
        least: dict[int, int] = {}
        for group in await self._listings.readers(header.topic):
            if group in left_out:
                continue
            for queue_id, at in (await self._listings.offsets_in(group, header.topic)).items():
                least[queue_id] = min(at, least.get(queue_id, at))
        compared = await self._listings.offsets_in(header.compare_group, header.topic)
        table = {
            Bare(queue_id): _LARGEST if compared.get(queue_id, at) > at else at
            for queue_id, at in sorted(least.items())
        }
        return call.request.answer(body=route_data.encode({"correctionOffsets": table}))

    async def all_of(self, call: Call) -> Command:
        """How far all groups are, as RocketMQ's consumerOffset.json."""
        table = {}
        for group, topics in (await self._listings.all_offsets()).items():
            for topic, queues in topics.items():
                table[f"{topic}@{group}"] = {Bare(n): at for n, at in sorted(queues.items())}
        body = {"dataVersion": version_bean(NO_VERSION), "offsetTable": table}
        return call.request.answer(body=route_data.encode(body))

    async def timers(self, call: Call) -> Command:
        """From where RocketMQ would go on with the timers, as its file config/timercheck has it."""
        body = self._parts.reading.timer_check()
        if not body:
            raise Refused(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        return call.request.answer(body=body)

    async def delays(self, call: Call) -> Command:
        """How far each delay level is delivered, as RocketMQ's delayOffset.json."""
        offsets = self._parts.reading.delay_offsets()
        if not offsets:
            raise Refused(ResponseCode.SYSTEM_ERROR, "Delay offset not exist in this broker")
        table = {Bare(level): at for level, at in sorted(offsets.items())}
        version = version_bean(NO_VERSION)
        body = route_data.encode({"dataVersion": version, "offsetTable": table})
        return call.request.answer(body=body)
