"""Heart-beats, and who is in a group (RocketMQ's ClientManageProcessor and the rest of
ConsumerManageProcessor).
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from ...store.filters.tags import FilterError
from ...store.names import retry_topic
from ..groups import heartbeats
from ..groups.consumers import Client
from ..groups.heartbeats import ClientConfig, ClientId, ConsumerData, Name
from ..link.topics import GROUP_S
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from .calls import Call, Handlers, Refused
from .parts import Parts

#: A member's further heart-beats take settings of its group that are so old (s): a thousand members
#: would otherwise ask the registry again and again.
_MEMBERS_S: Final = 60.0
#: A header of JSON may name any language: so many characters of it are kept.
_MOST_LANGUAGE: Final = 32


class _Unregister(msgspec.Struct):
    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = msgspec.field(default=None, name="producerGroup")
    consumer_group: str | None = msgspec.field(default=None, name="consumerGroup")


class _Group(msgspec.Struct, rename="camel"):
    consumer_group: str


class _Queue(msgspec.Struct, rename="camel"):
    topic: Name
    broker_name: Name
    queue_id: int


class _Lock(msgspec.Struct, rename="camel"):
    consumer_group: Name
    client_id: ClientId
    mq_set: list[_Queue]


class ClientProcessor:
    """Keeps the groups of what clients say, and tells them who is in a group."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._link = parts.link
        self._topics = parts.topics
        self._consumers = parts.consumers
        self._producers = parts.producers
        self._locks = parts.locks
        self._progress = parts.progress
        self._shared = parts.progress.shared
        self._topic_made = parts.topic_made

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.HEART_BEAT: self.beat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_config,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.members,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    async def beat(self, call: Call) -> Command:
        """Notes a client's producers and consumers. A group's retry topic is made now."""
        beat = heartbeats.decode_heartbeat(call.request.body)
        request = call.request
        language = request.language[:_MOST_LANGUAGE]
        client = Client(
            call.connection, beat.client_id, language, request.version, time.monotonic(),
            may_write=call.grant.may_write,
        )  # fmt: skip
        self._producers.register(client, {one.group_name for one in beat.producers})
        for consumer in beat.consumers:
            await self._consumer(client, consumer)
        # Java's clients send all subscriptions each time, unless they are told that they need not.
        return request.answer()

    async def _consumer(self, client: Client, data: ConsumerData) -> None:
        group = data.group_name
        settings = await self._topics.group(
            group,
            make=self._settings.auto_create_subscription_group,
            age_s=_MEMBERS_S if self._consumers.is_member(group, client.connection) else GROUP_S,
        )
        if not settings.known:
            return
        if self._link.find(retry_topic(group)) is None:
            await self._topics.retry(group)
            self._topic_made()
        if not client.connection.closed:
            notify = settings.notify_consumer_ids_changed_enable
            self._consumers.register(client, data, notify=notify)

    async def unregister(self, call: Call) -> Command:
        """Removes a client from a group of producers, or of consumers, or both."""
        header = parse(_Unregister, call.request.fields)
        if header.producer_group:
            self._producers.unregister(call.connection, header.producer_group)
        if header.consumer_group:
            self._consumers.unregister(call.connection, header.consumer_group)
        return call.request.answer()

    async def check_config(self, call: Call) -> Command:
        """Whether a consumer's filter can be used."""
        config: ClientConfig = heartbeats.decode(ClientConfig, call.request.body)
        wanted = config.subscription_data
        if wanted.kind != heartbeats.TAG:
            if not self._settings.enable_property_filter:
                why = f"The broker does not support consumer to filter message by {wanted.kind}"
                raise Refused(ResponseCode.SYSTEM_ERROR, why)
            try:
                wanted.compile()
            except FilterError as error:
                raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
        return call.request.answer()

    async def members(self, call: Call) -> Command:
        """The client ids of a group's members, those among them that are clients of the store. What
        the registry divides by is awaited: the asking client divides by the same.
        """
        group = parse(_Group, call.request.fields).consumer_group
        found = self._consumers.client_ids(group)
        if self._consumers.sharing(group)[0]:
            await self._progress.settle(group)
            shared = self._shared.get(group)
            if shared is not None:
                found = shared.clients
                self._shared.listed(call.connection, group)
        if not found:
            why = f"no consumer for this group, {group}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        return call.request.answer(body=msgspec.json.encode({"consumerIdList": found}))

    # -- locks of orderly consumers

    async def lock(self, call: Call) -> Command:
        """Locks queues for a client; the answer names those that it holds now."""
        wanted: _Lock = heartbeats.decode(_Lock, call.request.body)
        group = wanted.consumer_group
        names = {
            (one.topic, one.queue_id): one
            for one in wanted.mq_set
            if self._shared.may_begin(group, (one.topic, one.queue_id), call.connection)
        }
        got = self._locks.lock(group, wanted.client_id, list(names))
        held = [
            {"brokerName": names[one].broker_name, "queueId": one[1], "topic": one[0]}
            for one in got
        ]
        return call.request.answer(body=msgspec.json.encode({"lockOKMQSet": held}))

    async def unlock(self, call: Call) -> Command:
        """Releases queues that a client holds."""
        wanted: _Lock = heartbeats.decode(_Lock, call.request.body)
        queues = [(one.topic, one.queue_id) for one in wanted.mq_set]
        self._locks.unlock(wanted.consumer_group, wanted.client_id, queues)
        self._progress.give_back()
        return call.request.answer()
