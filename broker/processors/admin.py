"""What clients and tools ask of topics and groups (a part of RocketMQ's AdminBrokerProcessor)."""

from __future__ import annotations

import msgspec

from ...shm.protocol.requests import Alter, Clean, Delete, Reset, SetGroup
from ...store.errors import IllegalMessage
from ...store.names import UNSENDABLE_TOPICS, validate_topic
from ..access.signatures import CREDENTIALS
from ..groups.heartbeats import decode as decode_body
from ..groups.relay import Relay
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import offset_in_id, parse
from .calls import Call, Handlers, Refused
from .parts import Parts

#: How long a client may take to answer what is relayed to it (s).
_RELAY_S = 10.0


class _Create(msgspec.Struct, rename="camel"):
    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    order: bool = False


class _GroupConfig(msgspec.Struct, rename="camel"):
    """A group in the body of a request (SubscriptionGroupConfig)."""

    group_name: str
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1


class _Topic(msgspec.Struct):
    topic: str


class _Reset(msgspec.Struct, rename="camel"):
    topic: str
    group: str
    timestamp: int
    queue_id: int = -1
    offset: int | None = None


class _OfClient(msgspec.Struct, rename="camel"):
    consumer_group: str
    client_id: str
    msg_id: str | None = None


class AdminProcessor:
    """Makes and deletes topics, resets offsets, and relays what only a client can answer."""

    def __init__(self, parts: Parts, relay: Relay) -> None:
        self._parts = parts
        self._relay = relay

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_topic,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.create_group,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.clean,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.relay,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.relay,
        }

    async def create_topic(self, call: Call) -> Command:
        """Makes a topic, or changes it."""
        header = parse(_Create, call.request.fields)
        try:
            validate_topic(header.topic)
        except IllegalMessage as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, error.why) from error
        if header.topic in UNSENDABLE_TOPICS:
            why = f"The topic[{header.topic}] is conflict with system topic."
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        await self._parts.link.ask(
            Alter(
                header.topic,
                header.read_queue_nums,
                header.write_queue_nums,
                header.perm & 6,
                header.order,
            )
        )
        self._parts.topics.forget()
        self._parts.topic_made()
        return call.request.answer()

    async def delete_topic(self, call: Call) -> Command:
        """Deletes a topic with its messages."""
        header = parse(_Topic, call.request.fields)
        await self._parts.link.ask(Delete(header.topic))
        self._parts.topics.forget()
        self._parts.topic_made()
        return call.request.answer()

    async def create_group(self, call: Call) -> Command:
        """Makes a group, or changes it."""
        config: _GroupConfig = decode_body(_GroupConfig, call.request.body)
        values = msgspec.structs.asdict(config)
        await self._parts.link.ask(SetGroup(values.pop("group_name"), **values))
        self._parts.topics.forget()
        return call.request.answer()

    async def reset(self, call: Call) -> Command:
        """Sets a group's offsets in a topic: its next pulls are told where to go on."""
        parts = self._parts
        header = parse(_Reset, call.request.fields)
        topic = parts.link.find(header.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        if not (await parts.topics.group(header.group, make=False)).known:
            why = f"Group {header.group} does not exist"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        ids = range(topic.read_queue_nums) if header.queue_id < 0 else [header.queue_id]
        offsets = {queue_id: self._target(header, queue_id) for queue_id in ids}
        answer = await parts.link.ask(Reset(header.group, header.topic, offsets))
        if answer.wait:
            why = f"group {header.group} has members that are clients of the store: try again"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        if parts.consumers.has_members(header.group):
            for queue_id, offset in offsets.items():
                if parts.progress.shared.refuses(header.group, (header.topic, queue_id)):
                    continue  # its reader has been told by the store
                parts.progress.resets[header.group, header.topic, queue_id] = offset
        name = parts.settings.broker_name
        table = {
            route_data.queue_key(name, header.topic, queue_id): offset
            for queue_id, offset in offsets.items()
        }
        return call.request.answer(body=route_data.encode({"offsetTable": table}))

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

    async def clean(self, call: Call) -> Command:
        """Removes expired files now, whatever the hour."""
        await self._parts.link.ask(Clean())
        return call.request.answer()

    async def relay(self, call: Call) -> Command:
        """Asks a consumer, and passes on its answer. CONSUME_MESSAGE_DIRECTLY brings a message."""
        request = call.request
        header = parse(_OfClient, request.fields)
        client = self._parts.consumers.find(header.consumer_group, header.client_id)
        if client is None:
            why = f"The Consumer <{header.consumer_group}> <{header.client_id}> not online"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        body = b""
        if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY and header.msg_id is not None:
            body = self._parts.reading.record_at(offset_in_id(header.msg_id))
        # Whoever has a signature may make the request again: it is the sender's, and the broker's.
        fields = {name: text for name, text in request.fields.items() if name not in CREDENTIALS}
        asked = Command(request.code, fields, body)
        answer = await self._relay.ask(client.connection, asked, _RELAY_S)
        if answer is None:
            why = f"consumer <{header.consumer_group}> <{header.client_id}> did not answer"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, why)
        return request.answer(
            answer.code, remark=answer.remark, fields=answer.fields, body=answer.body
        )
