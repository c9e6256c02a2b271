"""Sending: SEND_MESSAGE in both spellings, and batches (RocketMQ's SendMessageProcessor)."""

from __future__ import annotations

import random
import time
from typing import Final

from ...client.lookup.open_store import OpenStore
from ...client.producing.recall_handle import Handle
from ...client.session import Connection
from ...store.errors import IllegalMessage
from ...store.names import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    TIMER_TOPIC,
    UNSENDABLE_TOPICS,
    validate_topic,
)
from ...store.record.format import SYS_TRANSACTION, TRANSACTION_COMMIT
from ...store.record.ids import Host, encode_offset_message_id
from ...store.record.properties import UNIQ_KEY, WAIT, decode_properties
from ...store.status import PutMessageStatus
from ..link._sent import Sent
from ..loop._connection import Connection as Peer
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import ANSWER, Command, Serialization
from ._fast_send import FastSend
from ._send_answers import Answers
from .calls import Call, Handlers, Refused, code_of
from .parts import Parts
from .placing import Placed, Placing, is_half
from .send_headers import SendHeader, members

#: The version from which clients say how often a message may be consumed again: 3.4.9.
_LIMIT_VERSION: Final = 121
_STORED: Final = frozenset(
    (
        PutMessageStatus.PUT_OK,
        PutMessageStatus.FLUSH_DISK_TIMEOUT,
        PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
        PutMessageStatus.SLAVE_NOT_AVAILABLE,
    )
)
_PERM_WRITE: Final = 2


class SendProcessor:
    """Stores what producers send."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._link = parts.link
        self._sending = parts.sending
        self._topics = parts.topics
        self._reading = parts.reading
        self._locks = parts.locks
        self._topic_made = parts.topic_made
        self._counts = parts.counts
        self._statistics = parts.statistics
        self._placing = Placing(parts.settings, parts.link, parts.topics)
        self._max_message_size = 0  # that of the store
        #: Fields of every answer. Java's producer fails on an answer without any.
        self.always = {
            "MSG_REGION": parts.settings.region_id,
            "TRACE_ON": str(parts.settings.trace_on).lower(),
        }
        #: Serves what needs no decision.
        self.fast = FastSend(
            parts.sending.ring,
            parts.sending.waiting,
            self._placing.added,
            Answers(self.always, self._refuse, parts.statistics.latencies.all),
        )
        parts.counts.fast.append(self.fast)
        parts.link.began.append(self._bind)
        parts.link.ended.append(self.fast.forget)
        parts.topics.forgotten.append(self.fast.forget)
        parts.statistics.forgotten.append(self.fast.forget)

    def _bind(self, connection: Connection, _: OpenStore) -> None:
        config = connection.config
        self._max_message_size = config.max_message_size
        self.fast.bind(config.store_host, config.max_message_size, config.append_crc)

    def _refuse(self, peer: Peer, request: int, opaque: int, form: int, status: int) -> None:
        """Answers a message of the fast path that the store has refused, or lost."""
        error = self._sending.why(status)
        code = code_of(error.status)
        if error.status == PutMessageStatus.MESSAGE_ILLEGAL:
            # The right to write to the topic was taken back: a client that sends again learns why.
            self._topics.forget()
            code = ResponseCode.SYSTEM_ERROR
        self._counts.refuse(request, code)
        answer = Command(
            code, dict(self.always), b"", opaque, ANSWER, error.why,
            serialization=Serialization(form),
        )  # fmt: skip
        peer.send(answer.encode())

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
        }

    async def send(self, call: Call) -> Command:
        """Stores a message, or all messages of a batch, and answers where."""
        try:
            return await self._send(call)
        except Refused as refused:
            refused.fields = {**self.always, **refused.fields}
            raise
        except IllegalMessage as error:
            if error.status == PutMessageStatus.MESSAGE_ILLEGAL:
                self._topics.forget()
            raise Refused(code_of(error.status), error.why, dict(self.always)) from error

    async def _send(self, call: Call) -> Command:
        request = call.request
        header = SendHeader.of(request)
        await self.find_topic(header)
        if header.topic.startswith(RETRY_PREFIX):
            await self._send_again(header, request.version)
        if header.batch:
            _check_is_no_half(header)
            return await self._send_batch(request, header, Host.unpack(call.connection.host))
        return await self.store(call, header)

    async def store(self, call: Call, header: SendHeader) -> Command:
        """Stores one message, whose topic was found, and answers where. Raises Refused,
        IllegalMessage, StoreGone.
        """
        properties = decode_properties(header.properties.encode(), "replace")
        if is_half(header, properties):
            if self._settings.reject_transaction_message:
                why = f"the broker[{self._reading.host}] sending transaction message is forbidden"
                raise Refused(ResponseCode.NO_PERMISSION, why)
            placed = await self._placing.place_half(header, properties)
        else:
            _check_is_no_half(header)
            placed = await self._placing.place(header, properties)
        if placed.topic == header.topic and not header.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            await self._learn(header.topic)
        return await self._store(call, header, placed, properties)

    async def store_reply(self, call: Call, header: SendHeader, client_id: str) -> Command:
        """Stores a reply to a client of the store, which reads it there. Otherwise as `store`."""
        properties = decode_properties(header.properties.encode(), "replace")
        placed = await self._placing.place_reply(header, client_id)
        return await self._store(call, header, placed, properties)

    async def _store(
        self, call: Call, header: SendHeader, placed: Placed, properties: dict[str, str]
    ) -> Command:
        request, host = call.request, Host.unpack(call.connection.host)
        record = self._placing.encode(placed, header, request.body, properties, host)
        wait = properties.get(WAIT, "").lower() != "false"
        sent = await self._put(placed, record, 1, wait=wait)
        ids = encode_offset_message_id(self._reading.host, max(0, sent.physical_offset))
        return self._answer(request, sent, placed, properties.get(UNIQ_KEY, ""), ids)

    async def _send_batch(self, request: Command, header: SendHeader, host: Host) -> Command:
        if header.topic.startswith(RETRY_PREFIX) or len(header.topic.encode()) > 127:
            why = "a batch cannot go to a retry topic, or to one with more than 127 bytes"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
        whole = decode_properties(header.properties.encode(), "replace")
        placed = await self._placing.place(header, {})
        await self._learn(header.topic)
        records = []
        found = members(request.body)
        size, most = sum(len(one.body) for one in found), self._max_message_size
        if size > most:
            why = f"the batch's bodies have {size} bytes; at most {most} are allowed"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"{why} (max_message_size)")
        for member in found:
            properties = decode_properties(member.properties.encode(), "replace")
            header.flag = member.flag
            records.append(self._placing.encode(placed, header, member.body, properties, host))
        wait = whole.get(WAIT, "").lower() != "false"
        sent = await self._put(placed, b"".join(records), len(records), wait=wait)
        ids, at = [], max(0, sent.physical_offset)
        for record in records:
            ids.append(encode_offset_message_id(self._reading.host, at))
            at += len(record)
        return self._answer(request, sent, placed, whole.get(UNIQ_KEY, ""), ",".join(ids))

    async def _learn(self, topic: str) -> None:
        """Teaches the fast path a topic."""
        slots = await self._topics.route(topic)
        self.fast.learn(topic.encode(), slots, self._statistics.puts.of(topic))

    async def _put(self, placed: Placed, records: bytes, count: int, *, wait: bool) -> Sent:
        """Puts records into the store, and counts them."""
        began = time.monotonic()
        sent = await self._sending.put(records, count, placed.slot, wait=wait)
        if sent.status in _STORED:
            took_s = time.monotonic() - began
            self._statistics.sent(placed.wanted_topic, count, len(records), took_s)
        return sent

    def _answer(self, request: Command, sent: Sent, placed: Placed, key: str, ids: str) -> Command:
        if sent.status not in _STORED:
            error = self._sending.why(sent.status)
            raise error
        fields = {
            **self.always,
            "msgId": ids,
            "queueId": str(placed.wanted_queue),
            "queueOffset": str(sent.queue_offset),
        }
        if key:
            fields["transactionId"] = key
        if placed.due_ms is not None:
            name = self._settings.broker_name
            handle = Handle(placed.wanted_topic, placed.due_ms, key)
            fields["recallHandle"] = handle.encoded(name)
        return request.answer(code_of(sent.status), fields=fields)

    # -- topics

    async def find_topic(self, header: SendHeader) -> None:
        """Checks the topic, and makes it if it is missing. Raises Refused."""
        topic = header.topic
        found = self._link.find(topic)
        if found is None or topic in UNSENDABLE_TOPICS or topic == TIMER_TOPIC:
            try:
                validate_topic(topic)
            except IllegalMessage as error:
                raise Refused(ResponseCode.INVALID_PARAMETER, error.why) from error
            if topic in UNSENDABLE_TOPICS or topic == TIMER_TOPIC:
                why = f"Sending message to topic[{topic}] is forbidden."
                raise Refused(ResponseCode.NO_PERMISSION, why)
            await self._make_topic(header)
            found = self._link.find(topic)
        if found is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] was just deleted")
        if not found.perm & _PERM_WRITE:
            why = f"the sending message is forbidden: topic[{topic}] has perm {found.perm}"
            raise Refused(ResponseCode.NO_PERMISSION, why)
        most = max(found.write_queue_nums, found.read_queue_nums)
        if header.queue_id >= most:
            why = f"request queueId[{header.queue_id}] is illegal, topic[{topic}] has {most} queues"
            raise Refused(ResponseCode.INVALID_PARAMETER, why)
        if header.queue_id < 0:
            header.queue_id = random.randrange(max(1, found.write_queue_nums))  # noqa: S311

    async def _make_topic(self, header: SendHeader) -> None:
        topic = header.topic
        if topic.startswith(RETRY_PREFIX):
            await self._topics.retry(topic.removeprefix(RETRY_PREFIX))
        elif self._settings.auto_create_topic_enable and header.default_topic == AUTO_CREATE_TOPIC:
            wanted, most = header.default_topic_queue_nums, self._settings.default_topic_queue_nums
            await self._topics.create(topic, min(max(wanted, 1), most))
        else:
            why = f"topic[{topic}] not exist, apply first please!"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
        self._topic_made()

    async def _send_again(self, header: SendHeader, version: int) -> None:
        """A message that a consumer sends to its group's retry topic by itself: after the last try
        it goes to the dead letters. Raises Refused.
        """
        group = header.topic.removeprefix(RETRY_PREFIX)
        settings = await self._topics.group(
            group, make=self._settings.auto_create_subscription_group
        )
        if not settings.known:
            why = f"subscription group not exist, {group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        most = settings.retry_max_times
        if version >= _LIMIT_VERSION and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        if header.reconsume_times > most or self._locks.any_held(group):
            header.topic = await self._topics.retry(group, dead=True)
            header.queue_id = 0
            header.properties += "\x02DELAY\x010\x02"


def _check_is_no_half(header: SendHeader) -> None:
    """Raises Refused for a message that nobody would ever see: sysFlag calls it a half, or rolled
    back, but the property TRAN_MSG does not.
    """
    kind = header.sys_flag & SYS_TRANSACTION
    if kind and kind != TRANSACTION_COMMIT:
        why = f"sysFlag {header.sys_flag} is of a transaction, and property TRAN_MSG is not true"
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
