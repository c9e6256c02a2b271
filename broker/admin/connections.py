"""Who is connected: consumers and producers of groups."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from ..groups.consumers import Client, Producer
from ..groups.heartbeats import Subscription
from ..processors.calls import Call, Handlers, Refused
from ..processors.parts import Parts
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse


class _Consumers(msgspec.Struct, rename="camel"):
    consumer_group: str


class _Producers(msgspec.Struct, rename="camel"):
    producer_group: str


class ConnectionAdmin:
    """The connections of groups."""

    def __init__(self, parts: Parts) -> None:
        self._consumers = parts.consumers
        self._producers = parts.producers

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    async def consumers(self, call: Call) -> Command:
        """A group's members, and how the group consumes (ConsumerConnection)."""
        name = parse(_Consumers, call.request.fields).consumer_group
        group = self._consumers.get(name)
        if group is None:
            why = f"the consumer group[{name}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, why)
        body = {
            "connectionSet": [_connection(one) for one in group.clients.values()],
            "consumeFromWhere": group.from_where,
            "consumeType": group.consume_type,
            "messageModel": group.model,
            "subscriptionTable": {
                topic: subscription_bean(one) for topic, one in group.subscriptions.items()
            },
        }
        return call.request.answer(body=route_data.encode(body))

    async def producers(self, call: Call) -> Command:
        """A group's producers (ProducerConnection)."""
        name = parse(_Producers, call.request.fields).producer_group
        clients = self._producers.members(name)
        if not clients:
            why = f"the producer group[{name}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        body = {"connectionSet": [_connection(one) for one in clients]}
        return call.request.answer(body=route_data.encode(body))

    async def all_producers(self, call: Call) -> Command:
        """All producers by group (ProducerTableInfo)."""
        data = {
            name: [_producer(one) for one in self._producers.members(name)]
            for name in sorted(self._producers.counts())
        }
        return call.request.answer(body=route_data.encode({"data": data}))


def _connection(client: Client | Producer) -> dict[str, Any]:
    return {
        "clientAddr": client.connection.peer,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }


def _producer(client: Producer) -> dict[str, Any]:
    silent_s = time.monotonic() - client.seen_at
    return {
        "clientId": client.client_id,
        "language": client.language,
        "lastUpdateTimestamp": int((time.time() - silent_s) * 1000),
        "remoteIP": f"/{client.connection.peer}",  # as Java writes a socket's address
        "version": client.version,
    }


def subscription_bean(one: Subscription) -> dict[str, Any]:
    """A group's interest in a topic as RocketMQ writes it (SubscriptionData)."""
    return {
        "classFilterMode": one.class_filter_mode,
        "codeSet": sorted(one.code_set),
        "expressionType": one.kind,
        "subString": one.sub_string,
        "subVersion": one.sub_version,
        "tagsSet": sorted(one.tags_set),
        "topic": one.topic,
    }
