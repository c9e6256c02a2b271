"""Consumer groups: made, changed, deleted and listed."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from ...shm.protocol.admin_requests import Forbid
from ...shm.protocol.requests import DeleteGroup, SetGroup
from ...store.errors import IllegalMessage
from ..groups.heartbeats import Name, decode
from ..processors.calls import Call, Handlers, Refused
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from . import attributes
from .connections import subscription_bean
from .paging import page_of, version_bean
from .tools import Tools

#: So many groups are taken in one body.
_MOST: Final = 10_000
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class _Config(msgspec.Struct, rename="camel"):
    """A group in the body of a request (SubscriptionGroupConfig)."""

    group_name: Name
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    broker_id: _Count = 0
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: _Count = 15
    group_sys_flag: _Count = 0
    which_broker_when_consume_slowly: _Count = 1
    attributes: dict[str, str] | None = None


class _Configs(msgspec.Struct, rename="camel"):
    group_config_list: Annotated[list[_Config], msgspec.Meta(max_length=_MOST)]


class _Delete(msgspec.Struct, rename="camel"):
    group_name: str
    clean_offset: bool = False
    remove_offset: bool = False  # RocketMQ 4.9 calls it so


class _Group(msgspec.Struct):
    group: str


class _OfTopic(msgspec.Struct):
    topic: str


class _Both(_Group):
    topic: str


class _Forbid(_Both):
    readable: bool | None = None


class _Pages(msgspec.Struct, rename="camel"):
    group_seq: int | None = None
    max_group_num: int | None = None


class GroupAdmin(Tools):
    """Groups, as tools see them."""

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.create_all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_of,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.one,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbid,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.readers,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
        }

    async def create(self, call: Call) -> Command:
        """Makes a group, or changes it."""
        await self._make(decode(_Config, call.request.body))
        return call.request.answer()

    async def create_all(self, call: Call) -> Command:
        """Makes or changes all groups of a list."""
        configs: _Configs = decode(_Configs, call.request.body)
        for config in configs.group_config_list:
            attributes.of_group(config.attributes or {})
        for config in configs.group_config_list:
            await self._make(config)
        return call.request.answer()

    async def _make(self, config: _Config) -> None:
        values = msgspec.structs.asdict(config)
        added, dropped = attributes.of_group(values.pop("attributes") or {})
        name = values.pop("group_name")
        request = SetGroup(name, **values, set_attributes=added, drop_attributes=dropped)
        await self._parts.link.ask(request)
        self._parts.topics.forget()

    async def delete(self, call: Call) -> Command:
        """Deletes a group's settings, and how far it is if that is asked for."""
        header = parse(_Delete, call.request.fields)
        group = header.group_name
        if not self._parts.consumers.has_members(group):
            await self._parts.progress.release(group)
        keep = not (header.clean_offset or header.remove_offset)
        await self._parts.link.ask(DeleteGroup(group, keep_offsets=keep))
        self._parts.topics.forget()
        return call.request.answer()

    async def all_of(self, call: Call) -> Command:
        """All groups with their settings, or one page of them."""
        header = parse(_Pages, call.request.fields)
        groups, forbidden, version = await self._listings.groups()
        page = page_of(list(groups), header.group_seq, header.max_group_num)
        body = {
            "dataVersion": version_bean(version),
            "forbiddenTable": {name: forbidden[name] for name in page if name in forbidden},
            "subscriptionGroupTable": {name: _bean(groups[name]) for name in page},
        }
        fields = {"totalGroupNum": str(len(groups))}
        return call.request.answer(fields=fields, body=route_data.encode(body))

    async def one(self, call: Call) -> Command:
        """One group with its settings. An unknown one is made, if the settings allow that."""
        group = parse(_Group, call.request.fields).group
        make = self._parts.settings.auto_create_subscription_group
        try:
            known = (await self._parts.topics.group(group, make=make)).known
        except IllegalMessage:  # no group can have this name
            known = False
        config = await self._listings.group(group) if known else None
        if config is None:
            why = f"No group in this broker. group: {group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        return call.request.answer(body=route_data.encode(_bean(config)))

    async def forbid(self, call: Call) -> Command:
        """Forbids a group to read a topic, or allows it again, or says which of both it is."""
        header = parse(_Forbid, call.request.fields)
        topics = self._parts.topics
        if header.readable is None:
            settings = await topics.group(header.group, make=False)
        else:
            request = Forbid(header.group, header.topic, header.readable)
            settings = await self._parts.link.ask(request)
            topics.forget()
        readable = header.topic not in settings.forbidden
        body = {"group": header.group, "readable": readable, "topic": header.topic}
        return call.request.answer(body=route_data.encode(body))

    async def readers(self, call: Call) -> Command:
        """The groups that subscribe to a topic, or have begun there."""
        topic = parse(_OfTopic, call.request.fields).topic
        live = {one.name for one in self._parts.consumers if topic in one.subscriptions}
        groups = sorted(live.union(await self._listings.readers(topic)))
        return call.request.answer(body=route_data.encode({"groupList": groups}))

    async def topics(self, call: Call) -> Command:
        """The topics in which a group has begun."""
        group = parse(_Group, call.request.fields).group
        topics = sorted(await self._listings.offsets(group))
        return call.request.answer(body=route_data.encode({"topicList": topics}))

    async def subscription(self, call: Call) -> Command:
        """What a group that is connected subscribes to in a topic."""
        header = parse(_Both, call.request.fields)
        body: dict[str, object] = {"group": header.group}
        group = self._parts.consumers.get(header.group)
        found = None if group is None else group.subscriptions.get(header.topic)
        if found is not None:
            body["subscriptionData"] = subscription_bean(found)
        return call.request.answer(body=route_data.encode({**body, "topic": header.topic}))


def _bean(config: dict[str, object]) -> dict[str, object]:
    """A group's settings without those that have no value, as RocketMQ's tools get them."""
    return {name: value for name, value in config.items() if value is not None}
