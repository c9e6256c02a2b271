"""What only a client can answer: the broker asks it, and passes on what it says."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ..access.signatures import CREDENTIALS
from ..groups.consumers import Client
from ..groups.relay import Relay
from ..processors.calls import Call, Handlers, Refused
from ..processors.parts import Parts
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import offset_in_id, parse

#: How long a client may take to answer what is relayed to it (s).
_RELAY_S: Final = 10.0
#: How long it may take to say where it is.
_STATUS_S: Final = 5.0
#: So many clients of a group are asked where they are.
_MOST_ASKED: Final = 1000


class _OfClient(msgspec.Struct, rename="camel"):
    consumer_group: str
    client_id: str
    msg_id: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    topic: str
    group: str
    client_addr: str = ""


class _Queue(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


_ENTRY: Final = re.compile(rb"({[^{}]{1,2000}}):(-?[0-9]{1,19})\b")
_QUEUE: Final = msgspec.json.Decoder(_Queue)


class RelayAdmin:
    """Asks consumers."""

    def __init__(self, parts: Parts, relay: Relay) -> None:
        self._parts = parts
        self._relay = relay

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.relay,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.relay,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.status,
        }

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

    async def status(self, call: Call) -> Command:
        """Where the clients of a group are in a topic: what each of them says."""
        header = parse(_Status, call.request.fields)
        group = self._parts.consumers.get(header.group)
        if group is None:
            why = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, why)
        found: dict[str, Any] = {}
        for client in list(group.clients.values())[:_MOST_ASKED]:
            if header.client_addr in ("", client.client_id):
                found[client.client_id] = await self._ask_status(client, header)
        if not found:
            why = f"No consumer {header.client_addr} online in the consumer group: [{header.group}]"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, why)
        return call.request.answer(body=route_data.encode({"consumerTable": found}))

    async def _ask_status(self, client: Client, header: _Status) -> dict[str, Any]:
        """The offsets that a client tells; none if it does not answer, as C++'s clients."""
        fields = {"topic": header.topic, "group": header.group}
        asked = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields)
        answer = await self._relay.ask(client.connection, asked, _STATUS_S)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return {}
        return _offsets_in(answer.body)


def _offsets_in(body: bytes) -> dict[str, Any]:
    """The offsets in a client's answer, by queue. Each queue stands in the place of a key, so this
    is no JSON.
    """
    found: dict[str, Any] = {}
    for key, offset in _ENTRY.findall(body):
        try:
            queue = _QUEUE.decode(key)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        name = route_data.queue_key(queue.broker_name, queue.topic, queue.queue_id)
        found[name] = int(offset)
    return found
