"""Topics: made, changed, deleted and listed."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from ...shm.protocol.answers import TopicEntry
from ...shm.protocol.requests import Alter, Clean, Delete
from ...store.errors import IllegalMessage
from ...store.names import AUTO_CREATE_TOPIC, SYSTEM_TOPICS, UNSENDABLE_TOPICS, validate_topic
from ..groups.heartbeats import decode
from ..link.listings import Listings
from ..processors.calls import Call, Handlers, Refused
from ..processors.parts import Parts
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from . import attributes
from .inherited import inherited
from .paging import NO_VERSION, page_of, version_bean
from .tools import Tools

#: So many topics are taken in one body.
_MOST: Final = 10_000

FilterType = Literal["SINGLE_TAG", "MULTI_TAG"]


class _Header(msgspec.Struct, rename="camel"):
    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    order: bool = False
    topic_filter_type: FilterType = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: str = ""


class _Config(msgspec.Struct, rename="camel"):
    """A topic in the body of a request (TopicConfig)."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    order: bool = False
    topic_filter_type: FilterType = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: dict[str, str] | None = None


class _Configs(msgspec.Struct, rename="camel"):
    topic_config_list: Annotated[list[_Config], msgspec.Meta(max_length=_MOST)]


class _Topic(msgspec.Struct):
    topic: str


class _Pages(msgspec.Struct, rename="camel"):
    topic_seq: int | None = None
    max_topic_num: int | None = None


class TopicAdmin(Tools):
    """Topics, as tools see them. `address` is the broker's, HOST:PORT."""

    def __init__(self, parts: Parts, listings: Listings, address: str) -> None:
        super().__init__(parts, listings)
        self._address = address

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.create_all,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_of,
            RequestCode.GET_TOPIC_CONFIG: self.one,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.clean,
        }

    async def create(self, call: Call) -> Command:
        """Makes a topic, or changes it."""
        header = parse(_Header, call.request.fields)
        given = attributes.in_text(header.attributes)
        values = msgspec.structs.asdict(header)
        config = _Config(values.pop("topic"), **{**values, "attributes": given})
        await self._make(config)
        return call.request.answer()

    async def create_all(self, call: Call) -> Command:
        """Makes or changes all topics of a list. None of them, if one cannot be."""
        configs: _Configs = decode(_Configs, call.request.body)
        for config in configs.topic_config_list:
            _check(config)
        for config in configs.topic_config_list:
            await self._make(config)
        return call.request.answer()

    async def _make(self, config: _Config) -> None:
        _check(config)
        added, dropped = attributes.of_topic(config.attributes or {})
        if dropped and self._parts.link.find(config.topic_name) is None:
            why = f"only add attribute is supported while creating topic. key: {dropped[0]}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        await self._parts.link.ask(
            Alter(
                config.topic_name,
                config.read_queue_nums,
                config.write_queue_nums,
                config.perm & 6,
                config.order,
                config.topic_filter_type,
                config.topic_sys_flag,
                added,
                dropped,
            )
        )
        self._parts.topics.forget()
        self._parts.topic_made()

    async def delete(self, call: Call) -> Command:
        """Deletes a topic with its messages."""
        topic = parse(_Topic, call.request.fields).topic
        await self._parts.link.ask(Delete(topic))
        self._parts.topics.forget()
        self._parts.topic_made()
        return call.request.answer()

    async def all_of(self, call: Call) -> Command:
        """All topics with their settings, or one page of them."""
        header = parse(_Pages, call.request.fields)
        entries, version = await self._listings.topics()
        more = inherited(self._parts.settings)
        if more is not None and all(one.topic != more.topic for one in entries):
            entries = [*entries, more]
        page = page_of(entries, header.topic_seq, header.max_topic_num)
        body = {
            "dataVersion": version_bean(version),
            "mappingDataVersion": version_bean(NO_VERSION),
            "topicConfigTable": {one.topic: _bean(one) for one in page},
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
        fields = {"totalTopicNum": str(len(entries))}
        return call.request.answer(fields=fields, body=route_data.encode(body))

    async def one(self, call: Call) -> Command:
        """One topic with its settings."""
        topic = parse(_Topic, call.request.fields).topic
        entry = await self._listings.topic(topic)
        if entry is None and topic == AUTO_CREATE_TOPIC:
            entry = inherited(self._parts.settings)
        if entry is None:
            why = f"No topic in this broker. topic: {topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
        return call.request.answer(body=route_data.encode(_bean(entry)))

    async def system(self, call: Call) -> Command:
        """The names of the store's own topics, and of the broker and its cluster, which RocketMQ
        has as topics too.
        """
        settings = self._parts.settings
        names = {*SYSTEM_TOPICS, settings.broker_name, settings.broker_cluster_name}
        body = route_data.topic_list(sorted(names), self._address)
        return call.request.answer(body=body)

    async def clean(self, call: Call) -> Command:
        """Removes expired files of the log and of queues now, whatever the hour."""
        await self._parts.link.ask(Clean())
        return call.request.answer()

    async def clean_unused(self, call: Call) -> Command:
        """There are no queues of topics that are not known: a deletion removes them."""
        return call.request.answer()


def _check(config: _Config) -> None:
    """Raises Refused for a topic that cannot be made or changed."""
    try:
        validate_topic(config.topic_name)
    except IllegalMessage as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, error.why) from error
    if config.topic_name in UNSENDABLE_TOPICS:
        why = f"The topic[{config.topic_name}] is conflict with system topic."
        raise Refused(ResponseCode.SYSTEM_ERROR, why)
    attributes.of_topic(config.attributes or {})


def _bean(entry: TopicEntry) -> dict[str, Any]:
    """A topic as RocketMQ's brokers have it (TopicConfig)."""
    return {
        "attributes": dict(sorted(entry.attributes.items())),
        "order": entry.order,
        "perm": entry.perm,
        "readQueueNums": entry.read_queues,
        "topicFilterType": entry.filter_type,
        "topicName": entry.topic,
        "topicSysFlag": entry.sys_flag,
        "writeQueueNums": entry.write_queues,
    }
