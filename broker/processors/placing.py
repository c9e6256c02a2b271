"""Where a message from the network is stored, and the record that is made of it.

A delayed message waits in a topic of the store's own, as RocketMQ's broker puts it there
(`HookUtils.handleScheduleMessage`).
"""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

from ...client.producing.message_properties import Delay, Delayed, plan_delay
from ...conf.broker_settings import BrokerSettings
from ...store.delay.cancelling import DELETE_KEY
from ...store.errors import IllegalArgument, IllegalMessage, IllegalType
from ...store.names import (
    DLQ_PREFIX,
    REPLIES_TOPIC,
    RETRY_PREFIX,
    TRANS_HALF_TOPIC,
    allows_light_queues,
)
from ...store.record.format import SYS_TRANSACTION, encode_record
from ...store.record.ids import Host
from ...store.record.properties import (
    CRC32,
    DELAY,
    MULTI_DISPATCH,
    MULTI_QUEUE_OFFSET,
    REAL_QID,
    REAL_TOPIC,
    UNIQ_KEY,
    encode_light_offsets,
    encode_properties,
    parse_light_queues,
)
from ...store.record.requests import reply_queue
from ...store.status import PutMessageStatus
from ...store.transactions.half import (
    CHECK_TIMES,
    COPY_OF,
    FIRST_HALF,
    MOST_GROUP,
    PRODUCER_GROUP,
    TRAN_MSG,
)
from ..link.store import StoreLink
from ..link.topics import Topics
from .send_headers import SendHeader

_DELIVER_MS: Final = "TIMER_DELIVER_MS"
_DELAY_MS: Final = "TIMER_DELAY_MS"
_DELAY_S: Final = "TIMER_DELAY_SEC"
_TIMERS: Final = (_DELIVER_MS, _DELAY_S, _DELAY_MS)
#: Properties of a client that the broker sets itself.
_OURS: Final = frozenset(
    (
        *(CRC32, MULTI_QUEUE_OFFSET, REAL_TOPIC, REAL_QID, "TIMER_OUT_MS", "POP_CK"),
        *("CLUSTER", "MSG_REGION", "TRACE_ON"),
    )
)
#: RocketMQ's broker gives it to a half: the message's UNIQ_KEY.
_TRANSACTION_ID: Final = "__transactionId__"
#: What a client's half does not keep: only the store counts checks, and no transaction is delayed.
_NOT_IN_HALVES: Final = (DELAY, CHECK_TIMES, COPY_OF, FIRST_HALF, _TRANSACTION_ID)


class Placed(NamedTuple):
    """Where a message is stored: the topic and queue in its record, and the slot of the queue.
    `pairs` are further properties. `due_ms` is the time (epoch ms) of one that waits for it.
    """

    topic: str
    queue_id: int
    slot: int
    pairs: bytes
    wanted_topic: str
    wanted_queue: int
    due_ms: int | None = None


def is_half(header: SendHeader, properties: dict[str, str]) -> bool:
    """Whether a message is the half of a transaction. A consumed one that goes back to its group
    is none, though it has kept its properties.
    """
    if header.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return False
    return properties.get(TRAN_MSG, "").lower() == "true"


class Placing:
    """Makes records of what the network brings."""

    def __init__(self, settings: BrokerSettings, link: StoreLink, topics: Topics) -> None:
        self._link = link
        self._topics = topics
        #: Property pairs that every message gets.
        self.added = encode_properties(
            {
                "CLUSTER": settings.broker_cluster_name,
                "MSG_REGION": settings.region_id,
                "TRACE_ON": str(settings.trace_on).lower(),
            }
        )
        self._key_prefix = os.urandom(10).hex().upper()
        self._key_counter = 0

    async def place(self, header: SendHeader, properties: dict[str, str]) -> Placed:
        """Where a message with these properties is stored. Takes its delay out of them. Raises
        IllegalMessage, StoreGone.
        """
        topic, queue_id = header.topic, header.queue_id
        other, plus, _ = properties.get(DELETE_KEY, "").rpartition("+")
        if plus and other != topic:
            why = f"{DELETE_KEY} names a message of another topic, {other[:255]!a}"
            raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)
        delay = self._delay(topic, queue_id, properties)
        where: str | Delayed = topic
        pairs, due = b"", None
        stored, place = topic, queue_id
        if delay is not None:
            where, place, pairs, due = delay
            stored = delay.where.system
        elif MULTI_DISPATCH in properties and self._link.connection.config.light:
            pairs = await self._light(topic, properties[MULTI_DISPATCH])
        slots = await self._topics.route(where)
        if place >= len(slots):  # the topic may have got more queues
            self._topics.forget()
            slots = await self._topics.route(where)
        if place >= len(slots):
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"queue {place} of topic {stored}: it has {len(slots)} queues to write",
            )
        return Placed(stored, place, slots[place], pairs, topic, queue_id, due)

    async def place_half(self, header: SendHeader, properties: dict[str, str]) -> Placed:
        """Where the half of a transaction is stored. A delay by level is dropped, as RocketMQ's
        clients do. Raises IllegalMessage, StoreGone.
        """
        timer = next((name for name in (*_TIMERS, DELETE_KEY) if name in properties), None)
        if timer is not None:
            why = f"a transaction cannot be delayed or cancelled: it has property {timer}"
            raise IllegalMessage(PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, why)
        if not 0 < len(properties.get(PRODUCER_GROUP, "")) <= MOST_GROUP:
            why = f"a half needs a producer group of 1 to {MOST_GROUP} characters"
            why += f" (property {PRODUCER_GROUP})"
            raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)
        for name in _NOT_IN_HALVES:
            properties.pop(name, None)
        key = properties.get(UNIQ_KEY)
        pairs = {_TRANSACTION_ID: key, REAL_TOPIC: header.topic, REAL_QID: str(header.queue_id)}
        header.sys_flag &= ~SYS_TRANSACTION
        (slot,) = await self._topics.route(Delayed(TRANS_HALF_TOPIC, header.topic))
        return Placed(
            TRANS_HALF_TOPIC, 0, slot, encode_properties(pairs), header.topic, header.queue_id
        )

    async def place_reply(self, header: SendHeader, client_id: str) -> Placed:
        """Where a reply to a client of the store is put. Raises IllegalMessage, StoreGone."""
        slots = await self._topics.route(Delayed(REPLIES_TOPIC, ""))
        queue_id = reply_queue(client_id, len(slots))
        wanted = header.topic, header.queue_id
        return Placed(REPLIES_TOPIC, queue_id, slots[queue_id], b"", *wanted)

    def _delay(self, topic: str, queue_id: int, properties: dict[str, str]) -> Delay | None:
        level = _number(properties.pop(DELAY, "0"), DELAY)
        asked = {name: properties.pop(name) for name in _TIMERS if name in properties}
        if level > 0:
            asked = {}
        elif not asked:
            return None
        levels = self._link.connection.config.delay_levels
        deliver_at = delay_ms = None
        if _DELIVER_MS in asked:
            deliver_at = _number(asked[_DELIVER_MS], _DELIVER_MS)
        elif _DELAY_S in asked:
            delay_ms = 1000 * _number(asked[_DELAY_S], _DELAY_S)
        elif _DELAY_MS in asked:
            delay_ms = _number(asked[_DELAY_MS], _DELAY_MS)
        try:
            return plan_delay(topic, queue_id, max(0, level), deliver_at, delay_ms, levels=levels)
        except (IllegalArgument, IllegalType) as error:
            raise IllegalMessage(PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, str(error)) from error

    async def _light(self, topic: str, names: str) -> bytes:
        """Room for the offsets in light queues. Raises IllegalMessage."""
        if not allows_light_queues(topic):
            return b""
        found = parse_light_queues(names)
        for name in found:
            await self._topics.route(name)
        return encode_light_offsets(len(found))

    def encode(
        self,
        placed: Placed,
        header: SendHeader,
        body: bytes,
        properties: dict[str, str],
        born_host: Host,
    ) -> bytes:
        """The record of a message. Raises IllegalMessage."""
        if not body:
            raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, "the message has no body")
        for name in _OURS.intersection(properties):
            del properties[name]
        if UNIQ_KEY not in properties:
            properties[UNIQ_KEY] = self._next_key()
        config = self._link.connection.config
        return encode_record(
            topic=placed.topic.encode(),
            body=body,
            properties=encode_properties(properties) + self.added + placed.pairs,
            queue_id=placed.queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp or time.time_ns() // 1_000_000,
            born_host=born_host,
            store_host=Host.unpack(config.store_host),
            reconsume_times=header.reconsume_times,
            record_crc=config.append_crc,
            max_message_size=config.max_message_size,
        )

    def _next_key(self) -> str:
        self._key_counter = (self._key_counter + 1) & 0xFFFF_FFFF_FFFF
        return f"{self._key_prefix}{self._key_counter:012X}"


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        why = f"property {name} is {text[:40]!a}, and no number"
        raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why) from error
