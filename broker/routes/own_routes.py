"""`RouteProcessor`: the broker's answers as a name server that knows one broker, itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ...store.errors import IllegalMessage
from ...store.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, is_system_topic
from ...store.topics.topic_table import Topic, TopicState
from ..access.permissions import Denied
from ..processors.calls import Call, Handlers, Refused
from ..processors.parts import Parts
from ..processors.reply import reply_topic
from ..wire import route_data
from ..wire.codes import QUOTED_KEYS_VERSION, RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from ..wire.route_data import BrokerData, Queues

MASTER: Final = 0
#: Read, write, and inherit: from the topic with this permission new ones are made.
_INHERITED: Final = 7
#: Such a topic only says which brokers there are.
_ONLY_INHERITED: Final = 1
#: Queues of the topic that has the cluster's name (RocketMQ's TopicConfigManager).
_CLUSTER_QUEUES: Final = 16
_WRITE: Final = 2
_READ: Final = 4


class _Topic(msgspec.Struct, rename="camel"):
    topic: str
    accept_standard_json_only: bool = False


class _Broker(msgspec.Struct, rename="camel"):
    broker_name: str


class RouteProcessor:
    """Routes to this broker, at `address` (HOST:PORT)."""

    def __init__(self, parts: Parts, address: str) -> None:
        settings = parts.settings
        self._link = parts.link
        self._topics = parts.topics
        self._topic_made = parts.topic_made
        self._settings = settings
        self._address = address
        self._name = settings.broker_name
        self._writable = True  # unless an operator has taken the right to write from the routes
        self._brokers = {
            self._name: BrokerData(
                settings.broker_cluster_name, self._name, {MASTER: self._address}
            )
        }

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.none,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.none,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.none,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.forget_topic,
            RequestCode.GET_KV_CONFIG: self.no_setting,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.no_setting,
        }

    def queues(self, name: str) -> Queues | None:
        """The queues of a topic, None if there is none."""
        found = self._link.find(name)
        if found is not None:
            return self._queues_of(found)
        return self._inherited().get(name)

    def _inherited(self) -> dict[str, Queues]:
        """Topics that are told and not stored: the one from which topics are made, and those that
        have the names of the cluster and of the broker. By the cluster's topic a proxy of RocketMQ
        finds the brokers on which it makes its own topic.
        """
        makes = self._settings.auto_create_topic_enable
        perm = self._allowed(_INHERITED) if makes else _ONLY_INHERITED
        cluster = self._settings.broker_cluster_name
        counts = {self._name: 1, cluster: _CLUSTER_QUEUES}
        if makes:
            counts[AUTO_CREATE_TOPIC] = self._settings.default_topic_queue_nums
        return {name: Queues(count, count, perm) for name, count in counts.items()}

    def all_queues(self) -> Iterator[tuple[str, Queues]]:
        """All topics with their queues, also those that are told and not stored."""
        for topic in self._link.connection.table.entries():
            if topic.state == TopicState.LIVE:
                yield topic.name, self._queues_of(topic)
        for name, queues in self._inherited().items():
            if self._link.find(name) is None:
                yield name, queues

    async def route(self, call: Call) -> Command:
        """A topic's route. A consumer asks for that of its group's retry topic before it sends its
        first heart-beat, and then not for 30 s: so the topic is made now.
        """
        header = parse(_Topic, call.request.fields)
        queues = self.queues(header.topic)
        if queues is None and header.topic.startswith(RETRY_PREFIX):
            await self._make_retry(call, header.topic)
            queues = self.queues(header.topic)
        if queues is None:
            why = f"No topic route info in name server for the topic: {header.topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
        standard = call.request.version >= QUOTED_KEYS_VERSION or header.accept_standard_json_only
        if not self._writable:
            queues = queues._replace(perm=queues.perm & ~_WRITE)
        body = route_data.route(self._brokers, {self._name: queues}, None, standard=standard)
        return call.request.answer(body=body)

    async def _make_retry(self, call: Call, topic: str) -> None:
        group, make = (
            topic.removeprefix(RETRY_PREFIX),
            self._settings.auto_create_subscription_group,
        )
        try:
            call.grant.demand_reading(topic)
            if (await self._topics.group(group, make=make)).known:
                await self._topics.retry(group)
                self._topic_made()
        except (IllegalMessage, Denied):
            return  # no name of a group, or not the sender's: there is no such topic

    async def cluster_info(self, call: Call) -> Command:
        """The one broker in its cluster."""
        clusters = {self._settings.broker_cluster_name: [self._name]}
        return call.request.answer(body=route_data.cluster_info(self._brokers, clusters))

    async def topics(self, call: Call) -> Command:
        """The names of all topics."""
        names = [name for name, _ in self.all_queues()]
        return call.request.answer(body=route_data.topic_list(names))

    async def system_topics(self, call: Call) -> Command:
        """The names of the store's own topics, and the broker's address."""
        replies = reply_topic(self._settings)
        names = [name for name, _ in self.all_queues() if is_system_topic(name) or name == replies]
        return call.request.answer(body=route_data.topic_list(names, self._address))

    async def none(self, call: Call) -> Command:
        """An empty list of topics."""
        return call.request.answer(body=route_data.topic_list([]))

    async def no_setting(self, call: Call) -> Command:
        """There are no key-value settings here."""
        raise Refused(ResponseCode.QUERY_NOT_FOUND, "the broker keeps no key-value settings")

    async def wipe_write(self, call: Call) -> Command:
        """Takes the right to write out of the routes that this broker tells."""
        return self._set_writable(call, "wipeTopicCount", writable=False)

    async def add_write(self, call: Call) -> Command:
        """Gives it back."""
        return self._set_writable(call, "addTopicCount", writable=True)

    def _set_writable(self, call: Call, count: str, *, writable: bool) -> Command:
        """Answers how many topics that concerns. A broker with another name has none here."""
        topics = 0
        if parse(_Broker, call.request.fields).broker_name == self._name:
            self._writable = writable
            topics = sum(1 for _ in self.all_queues())
        return call.request.answer(fields={count: str(topics)})

    async def forget_topic(self, call: Call) -> Command:
        """Nothing is left to forget of a topic that was deleted in the broker."""
        parse(_Topic, call.request.fields)
        return call.request.answer()

    def _queues_of(self, topic: Topic) -> Queues:
        return Queues(topic.read_queue_nums, topic.write_queue_nums, self._allowed(topic.perm))

    def _allowed(self, perm: int) -> int:
        """What is left of a topic's permission."""
        allowed = self._settings.broker_permission
        return perm if allowed == _READ | _WRITE else perm & allowed
