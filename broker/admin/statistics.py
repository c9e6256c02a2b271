"""How full topics are, how far groups are, and the rates of both."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ...store.names import AUTO_CREATE_TOPIC
from ...store.topics.topic_table import Topic
from ..link.listings import Listings
from ..processors.calls import Call, Handlers, Refused
from ..processors.parts import Parts
from ..statistics.rates import Rate
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from .connections import subscription_bean
from .inherited import inherited
from .tools import Tools

#: So many entries of a queue are shown at once.
_MOST_ENTRIES: Final = 10_000


class _Topic(msgspec.Struct):
    topic: str


class _Progress(msgspec.Struct, rename="camel"):
    consumer_group: str
    topic: str = ""
    topic_list: str = ""


class _Span(msgspec.Struct):
    topic: str
    group: str


class _Statistic(msgspec.Struct, rename="camel"):
    stats_name: str
    stats_key: str


class _All(msgspec.Struct, rename="camel"):
    is_order: bool = False


class _Entries(msgspec.Struct, rename="camel"):
    topic: str
    queue_id: int
    index: int
    count: int
    consumer_group: str | None = None


class StatisticsAdmin(Tools):
    """Figures of topics and groups. `address` is the broker's, HOST:PORT."""

    def __init__(self, parts: Parts, listings: Listings, address: str) -> None:
        super().__init__(parts, listings)
        self._address = address
        self._name = parts.settings.broker_name

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_TOPIC_STATS_INFO: self.topic,
            RequestCode.GET_CONSUME_STATS: self.group,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_groups,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_span,
            RequestCode.VIEW_BROKER_STATS_DATA: self.rates,
            RequestCode.QUERY_CONSUME_QUEUE: self.entries,
        }

    async def topic(self, call: Call) -> Command:
        """Begin, end and last time of each queue of a topic (TopicStatsTable)."""
        name = parse(_Topic, call.request.fields).topic
        topic = self._parts.link.find(name)
        made_from = inherited(self._parts.settings) if name == AUTO_CREATE_TOPIC else None
        if topic is not None:
            queues = max(topic.read_queue_nums, topic.write_queue_nums)
        elif made_from is not None:
            queues = made_from.write_queues
        else:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        table = {}
        for queue_id in range(queues):
            least, end = self._parts.reading.bounds(name, queue_id)
            table[route_data.queue_key(self._name, name, queue_id)] = {
                "lastUpdateTimestamp": max(0, self._stored_ms(name, queue_id, end - 1)),
                "maxOffset": end,
                "minOffset": least,
            }
        body = {"offsetTable": table, "topicPutTps": self._parts.statistics.put_tps(name)}
        return call.request.answer(body=route_data.encode(body))

    async def group(self, call: Call) -> Command:
        """How far a group is in its topics (ConsumeStats)."""
        header = parse(_Progress, call.request.fields)
        group = header.consumer_group
        offsets = await self._listings.offsets(group)
        wanted: Iterable[str] = [one for one in header.topic_list.split(";") if one] or (
            [header.topic] if header.topic.strip() else sorted(offsets)
        )
        table: dict[str, Any] = {}
        tps = 0.0
        for name in wanted:
            topic = self._consumed(group, name)
            if topic is not None:
                of_topic = offsets.get(name, {})
                table |= self._progress(group, topic, topic.read_queue_nums, of_topic)
                tps += self._parts.statistics.get_tps(name, group)
        body = {"consumeTps": tps, "offsetTable": table}
        return call.request.answer(body=route_data.encode(body))

    def _consumed(self, group: str, name: str) -> Topic | None:
        """A topic, unless a group that is connected does not subscribe to it."""
        live = self._parts.consumers.get(group)
        if live is not None and live.subscriptions and name not in live.subscriptions:
            return None
        return self._parts.link.find(name)

    def _progress(
        self, group: str, topic: Topic, queues: int, offsets: dict[int, int]
    ) -> dict[str, Any]:
        """Where a group is in the first `queues` queues of a topic (OffsetWrapper)."""
        table: dict[str, Any] = {}
        pulled_to = self._parts.statistics.pulled_to
        for queue_id in range(queues):
            _, end = self._parts.reading.bounds(topic.name, queue_id)
            offset = offsets.get(queue_id, 0)
            table[route_data.queue_key(self._name, topic.name, queue_id)] = {
                "brokerOffset": end,
                "consumerOffset": offset,
                "lastTimestamp": max(0, self._stored_ms(topic.name, queue_id, offset - 1)),
                "pullOffset": max(offset, min(end, pulled_to(group, topic.name, queue_id))),
            }
        return table

    async def all_groups(self, call: Call) -> Command:
        """How far all groups are in all their topics (ConsumeStatsList)."""
        ordered = parse(_All, call.request.fields).is_order
        groups = (await self._listings.groups()).configs
        offsets_of = await self._listings.all_offsets()
        entries, _ = await self._listings.topics() if ordered else ([], None)
        in_order = {one.topic for one in entries if one.order}
        found = []
        behind = inflight = 0
        for group in sorted(groups):
            consumed = []
            for name, offsets in sorted(offsets_of.get(group, {}).items()):
                topic = self._consumed(group, name)
                if topic is None or (ordered and name not in in_order):
                    continue
                table = self._progress(group, topic, topic.write_queue_nums, offsets)
                tps = self._parts.statistics.get_tps(name, group)
                behind += sum(one["brokerOffset"] - one["consumerOffset"] for one in table.values())
                inflight += sum(one["pullOffset"] - one["consumerOffset"] for one in table.values())
                consumed.append({"consumeTps": tps, "offsetTable": table})
            found.append({group: consumed})
        body = {
            "brokerAddr": self._address,
            "consumeStatsList": found,
            "totalDiff": behind,
            "totalInflightDiff": inflight,
        }
        return call.request.answer(body=route_data.encode(body))

    async def time_span(self, call: Call) -> Command:
        """From when to when the messages of each queue are, and where a group is in this time."""
        header = parse(_Span, call.request.fields)
        name = header.topic
        topic = self._parts.link.find(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        offsets = await self._listings.offsets_in(header.group, name)
        now_ms = time.time_ns() // 1_000_000
        spans = []
        for queue_id in range(topic.write_queue_nums):
            _, end = self._parts.reading.bounds(name, queue_id)
            at = offsets.get(queue_id, -1)
            first_ms = self._parts.reading.earliest_ms(name, queue_id)
            span = {
                "consumeTimeStamp": self._stored_ms(name, queue_id, at - 1) if at > 0 else first_ms,
                "delayTime": 0,
                "maxTimeStamp": self._stored_ms(name, queue_id, end - 1),
                "messageQueue": {"brokerName": self._name, "queueId": queue_id, "topic": name},
                "minTimeStamp": first_ms,
            }
            if max(0, at) < end:
                span["delayTime"] = now_ms - self._stored_ms(name, queue_id, max(0, at))
            spans.append(span)
        return call.request.answer(body=route_data.encode({"consumeTimeSpanSet": spans}))

    def _stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        return self._parts.reading.stored_ms(topic, queue_id, offset)

    async def rates(self, call: Call) -> Command:
        """One of the broker's statistics (BrokerStatsData)."""
        header = parse(_Statistic, call.request.fields)
        found = self._parts.statistics.find(header.stats_name, header.stats_key)
        if found is None:
            why = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        body = {
            "statsDay": _bean(found.day),
            "statsHour": _bean(found.hour),
            "statsMinute": _bean(found.minute),
        }
        return call.request.answer(body=route_data.encode(body))

    async def entries(self, call: Call) -> Command:
        """Some entries of a queue, and whether a group's filter takes them."""
        header = parse(_Entries, call.request.fields)
        topic, queue_id = header.topic, header.queue_id
        found = self._parts.link.find(topic)
        if found is None or not 0 <= queue_id < len(found.slots):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        least, end = self._parts.reading.bounds(topic, queue_id)
        count = max(0, min(header.count, _MOST_ENTRIES))
        body: dict[str, Any] = {"maxQueueIndex": end, "minQueueIndex": least}
        if header.consumer_group:
            group = self._parts.consumers.get(header.consumer_group)
            wanted = None if group is None else group.subscriptions.get(topic)
            if wanted is None:
                body["filterData"] = f"{header.consumer_group}@{topic} is not online!"
            else:
                body |= {"filterData": "null", "subscriptionData": subscription_bean(wanted)}
        body["queueData"] = [
            {"eval": False, "physicOffset": at, "physicSize": size, "tagsCode": code}
            for at, size, code in self._parts.reading.entries(topic, queue_id, header.index, count)
        ]
        ordered = {name: body[name] for name in sorted(body)}
        return call.request.answer(body=route_data.encode(ordered))


def _bean(rate: Rate) -> dict[str, Any]:
    return {"avgpt": rate.per_time, "sum": rate.total, "tps": rate.per_second}
