"""Replies to producers that have sent a request (RocketMQ's ReplyMessageProcessor).

A producer's request is a message that names its sender's client id. Whoever consumes it sends its
reply here, and the broker pushes the reply to that client. A reply to a client of the store goes
into the store instead, where that client reads it. What such a client replies to one on the network
comes from the store (`broker/groups/local_replies.py`).
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Final

from ...client.errors import StoreClosed
from ...store.errors import IllegalMessage
from ...store.names import REPLY_TOPIC_SUFFIX
from ...store.record.format import SYS_TRANSACTION
from ...store.record.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    decode_properties,
)
from ...store.record.requests import LOCAL, REPLY_TO_CLIENT
from ...store.status import PutMessageStatus
from ..groups.local_replies import LocalReplies
from ..link.store import StoreGone
from ..loop.tasks import Waiter, start
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from .calls import Call, Handlers, Refused, code_of
from .send_headers import SendHeader

if TYPE_CHECKING:
    from ...client.lookup.open_store import OpenStore
    from ...client.session import Connection
    from ...conf.broker_settings import BrokerSettings
    from ..groups.relay import Relay
    from .parts import Parts
    from .send import SendProcessor

_PUSH_TIME: Final = "PUSH_REPLY_TIME"
#: RocketMQ's patience with a client to which a reply is pushed (s).
_PUSH_S: Final = 10.0
#: So often it looks for replies of the store's clients (s).
_TICK_S: Final = 1.0
#: So many bytes of replies wait for their clients' answers at a time.
_MOST_PUSHED: Final = 32 << 20
#: So many characters of a client id are told.
_MOST_TOLD: Final = 200


def reply_topic(settings: BrokerSettings) -> str:
    """The topic to which repliers send: clients make its name of the CLUSTER of a request."""
    return settings.broker_cluster_name + REPLY_TOPIC_SUFFIX


class ReplyProcessor:
    """Pushes replies to the clients that have asked, and stores them.

    The topic of replies is made with each session, the first one included: a replier of Java sends
    to no topic without a route.
    """

    def __init__(self, parts: Parts, relay: Relay, send: SendProcessor) -> None:
        self._parts = parts
        self._relay = relay
        self._send = send
        self._pushed = 0  # bytes of replies that wait for an answer
        self._local = LocalReplies(
            parts.loop,
            parts.link,
            reading=parts.reading,
            holds=parts.holds,
            producers=parts.producers,
            relay=relay,
            topic=reply_topic(parts.settings),
            logger=parts.logger,
        )
        self._tick()
        parts.link.began.append(self._began)
        start(self._make_topic())

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply,
        }

    def _tick(self) -> None:
        self._local.tick()
        self._parts.loop.call_later(_TICK_S, self._tick)

    def _began(self, _: Connection, __: OpenStore) -> None:
        start(self._make_topic())

    async def _make_topic(self) -> None:
        topic = reply_topic(self._parts.settings)
        try:
            await self._parts.topics.create(topic, 1)
        except (StoreGone, StoreClosed):
            return  # the next session makes it
        except (IllegalMessage, OSError) as error:
            self._parts.logger.warning("no topic for replies", topic=topic, error=str(error))
            return
        self._parts.topic_made()

    async def reply(self, call: Call) -> Command:
        """Pushes a reply to the client that has asked, and stores it at the same time. The answer
        says whether that client has it, and where it is stored.
        """
        request, header = call.request, SendHeader.of(call.request)
        always = self._send.always
        if header.sys_flag & SYS_TRANSACTION:
            why = "a reply takes part in no transaction"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, why, dict(always))
        try:
            await self._send.find_topic(header)
        except Refused as refused:
            refused.fields = dict(always)
            raise
        properties = decode_properties(header.properties.encode(), "replace")
        client_id = properties.get(REPLY_TO_CLIENT)
        if client_id is not None and client_id.startswith(LOCAL):
            return await self._put_for(call, header, client_id)
        if self._pushed + len(request.body) > _MOST_PUSHED:
            why = "too many replies wait for their clients' answers: try again"
            raise Refused(ResponseCode.SYSTEM_BUSY, why, dict(always))
        pushed: Waiter[str] = Waiter()
        start(self._push(call, header, client_id, pushed))
        # As in RocketMQ: a client of Java reads these, also when nothing is stored.
        answer = request.answer(
            fields={**always, "msgId": "0", "queueId": str(header.queue_id), "queueOffset": "0"}
        )
        if self._parts.settings.store_reply_message_enable:
            try:
                answer.fields = (await self._send.store(call, header)).fields
            except IllegalMessage as error:  # the reply may have arrived all the same
                self._parts.counts.refuse(request.code, code_of(error.status))
            except (StoreGone, StoreClosed):
                self._parts.counts.refuse(request.code, ResponseCode.SERVICE_NOT_AVAILABLE)
        why = await pushed
        if why:
            self._parts.counts.refuse(request.code, ResponseCode.SYSTEM_ERROR)
            answer.code, answer.remark = ResponseCode.SYSTEM_ERROR, why
        return answer

    async def _put_for(self, call: Call, header: SendHeader, client_id: str) -> Command:
        """Answers as SEND_MESSAGE does: whether the client still waits is not known here."""
        always = dict(self._send.always)
        try:
            return await self._send.store_reply(call, header, client_id)
        except IllegalMessage as error:
            if error.status == PutMessageStatus.MESSAGE_ILLEGAL:
                self._parts.topics.forget()
            raise Refused(code_of(error.status), error.why, always) from error

    async def _push(
        self, call: Call, header: SendHeader, client_id: str | None, pushed: Waiter[str]
    ) -> None:
        """Tells why the client that has asked has no reply, in RocketMQ's words, or nothing."""
        if client_id is None:
            pushed.set(f"reply message properties[{REPLY_TO_CLIENT}] is null")
            return
        told = client_id[:_MOST_TOLD]
        connection = self._parts.producers.find(client_id)
        if connection is None:
            pushed.set(f"push reply message fail, channel of <{told}> not found.")
            return
        fields = self._fields(call, header)
        command = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, call.request.body)
        size = len(command.body)
        self._pushed += size
        try:
            answer = await self._relay.ask(connection, command, _PUSH_S)
        except (ValueError, struct.error) as error:  # it does not fit into a frame
            pushed.set(f"push reply message to {told}fail: {error}")
            return
        finally:
            self._pushed -= size
        arrived = answer is not None and answer.code == ResponseCode.SUCCESS
        pushed.set("" if arrived else f"push reply message to {told}fail.")

    def _fields(self, call: Call, header: SendHeader) -> dict[str, str]:
        """The fields of PUSH_REPLY_MESSAGE_TO_CLIENT (ReplyMessageRequestHeader)."""
        now_ms = time.time_ns() // 1_000_000
        properties = header.properties
        if properties and not properties.endswith(PROPERTY_SEPARATOR):
            properties += PROPERTY_SEPARATOR
        properties += f"{_PUSH_TIME}{NAME_VALUE_SEPARATOR}{now_ms}{PROPERTY_SEPARATOR}"
        return {
            **header.pushed(),
            "properties": properties,
            "bornHost": call.connection.peer,
            "storeHost": str(self._parts.reading.host),
            "storeTimestamp": str(now_ms),
            "unitMode": "false",
        }
