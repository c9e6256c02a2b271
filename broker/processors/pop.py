"""Popping: POP_MESSAGE and PEEK_MESSAGE (RocketMQ's PopMessageProcessor, PeekMessageProcessor)."""

from __future__ import annotations

import hashlib
import random
import time
from typing import Annotated, Any, Final

import msgspec

from ...client.consuming.message_view import MessageView
from ...shm.protocol.pop_answers import (
    LookedQueue,
    PoppedLease,
)
from ...shm.protocol.pops import MOST_INVISIBLE_MS, Look, Pop, Settling
from ...store.errors import StoreError
from ...store.filters.tags import MessageFilter
from ...store.groups.leases import LEASE_MOST
from ...store.names import RETRY_PREFIX
from ...store.reading.get_message import MOST_BYTES
from ...store.record.fields import reconsume_times_of, with_more_reconsume_times
from ..groups.pop_holds import Place
from ..link.pops import Taken
from ..loop.tasks import start
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from ..wire.receipts import IN_ORDER, RETRY_V1, TOPIC, Infos, Receipt, retry_topics
from .calls import Call, Handlers, Refused
from .parts import Parts
from .pop_checks import check_pop, pop_filter
from .retried_records import as_original
from .send_back import SendBackProcessor

#: RocketMQ answers a held pop so long before the client gives up (ms).
_EARLY_MS: Final = 50
#: A pop that comes so long after its client has stopped waiting is not served (ms).
_TOO_LATE_MS: Final = 500
#: A client that asks for a longer hold gets this one (ms).
_LONGEST_HOLD_MS: Final = 60_000
#: How often the retry topic has its turn first (popFromRetryProbability).
_RETRY_FIRST: Final = 0.2
_LATEST: Final = 1
#: A message that goes to the dead letters is leased for so long (ms). It is tried again then.
_BURY_MS: Final = 10_000
#: A hold ends after so long (s) to look again, whatever happened.
_LOOK_S: Final = 5.0


#: A Java long.
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Header(msgspec.Struct, rename="camel"):
    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: _Long
    poll_time: _Long
    init_mode: int = _LATEST
    born_time: int = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class _Peek(msgspec.Struct, rename="camel"):
    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int


class _Try(msgspec.Struct, frozen=True):
    """One topic from which a pop takes, up to `most` messages: its own, or a retry topic."""

    header: _Header
    chosen: MessageFilter | None
    attempt: int
    mark: str
    topic: str
    most: int


class _Found(msgspec.Struct):
    """What a pop has found so far."""

    records: list[bytes] = []
    infos: Infos = msgspec.field(default_factory=Infos)
    lease: PoppedLease | None = None
    left: int = 0
    next_ms: int = 0
    now_ms: int = 0


class PopProcessor:
    """Leases messages to consumers, and holds their pops while there are none."""

    def __init__(self, parts: Parts, send_back: SendBackProcessor) -> None:
        self._parts = parts
        self._pops = parts.pops
        self._holds = parts.pop_holds
        self._send_back = send_back
        self._broker_name = parts.settings.broker_name
        parts.progress.noticed.append(parts.pop_holds.wake_one_of_each)

    @property
    def handlers(self) -> Handlers:
        return {RequestCode.POP_MESSAGE: self.pop, RequestCode.PEEK_MESSAGE: self.peek}

    async def pop(self, call: Call) -> Command:
        """Leases messages to a member of a group."""
        header = parse(_Header, call.request.fields)
        now_ms = time.time_ns() // 1_000_000
        born_ms = min(header.born_time, now_ms) if header.born_time > 0 else now_ms
        if now_ms - born_ms - header.poll_time > _TOO_LATE_MS:
            raise Refused(ResponseCode.POLLING_TIMEOUT, "the pop came too late")
        await check_pop(self._parts, header.consumer_group, header.topic, header.queue_id,
                        header.max_msg_nums)  # fmt: skip
        chosen = pop_filter(self._parts.settings, header.exp_type, header.exp)
        hold_ms = min(header.poll_time, _LONGEST_HOLD_MS) - (now_ms - born_ms) - _EARLY_MS
        deadline = time.monotonic() + max(0, hold_ms) / 1000
        key = (header.consumer_group, header.topic)
        attempt = _attempt(header)
        while not call.connection.closed:
            if call.connection.unsent > self._parts.settings.max_unsent_size:
                break
            topics = await self.topics(header.consumer_group, header.topic)
            places = self.places(topics, header.queue_id)
            found = await self._look(header, topics, chosen, attempt)
            if found.records:
                return self._answer(call, header, found)
            if found.lease is not None:  # a filter has taken none of them
                continue
            if time.monotonic() >= deadline:
                break
            if self._holds.is_full(key):
                raise Refused(ResponseCode.POLLING_FULL, "too many pops are held")
            until = min(deadline, time.monotonic() + _LOOK_S)
            if found.next_ms:
                until = min(until, time.monotonic() + (found.next_ms - found.now_ms) / 1000)
            await self._holds.wait(key, places, until, call.connection)
            call.check()
        raise Refused(ResponseCode.POLLING_TIMEOUT, "no message was found in time")

    def places(self, topics: dict[str, str], queue_id: int) -> list[Place]:
        """The queues of a pop of these topics, with their ends now."""
        table = self._parts.link.connection.table
        found = []
        for mark, name in topics.items():
            entry = table.find(name)
            slots = () if entry is None else entry.slots[: entry.read_queue_nums]
            if mark == TOPIC and queue_id >= 0:
                slots = slots[queue_id : queue_id + 1]
            words = [(slot, table.queue_word(slot, "max_offset")) for slot in slots]
            found += [(slot, word, word.load()) for slot, word in words]
        return found

    def slot(self, topic: str, queue_id: int) -> int | None:
        """A queue's slot, None if all queues are meant."""
        entry = self._parts.link.connection.table.find(topic)
        there = entry is not None and 0 <= queue_id < len(entry.slots)
        return entry.slots[queue_id] if entry is not None and there else None

    async def topics(self, group: str, topic: str) -> dict[str, str]:
        """The topics of a pop by their marks: a store that was RocketMQ's may have retry topics.
        The first name of one may be that of another group's own retry topic, which is left to it.
        """
        table = self._parts.link.connection.table
        retry = retry_topics(group, topic)
        found = {mark: name for mark, name in retry.items() if table.find(name)}
        if RETRY_V1 in found:
            other = found[RETRY_V1].removeprefix(RETRY_PREFIX)
            if (await self._parts.topics.group(other, make=False)).known:
                del found[RETRY_V1]
        return {TOPIC: topic} | found

    async def _look(
        self, header: _Header, topics: dict[str, str], chosen: MessageFilter | None, attempt: int
    ) -> _Found:
        """Pops from the topic, then from retry topics, or the other way round."""
        found = _Found()
        marks = list(topics.items())
        if header.order:
            marks = marks[:1]
        elif random.random() < _RETRY_FIRST:  # noqa: S311 - a fair share is enough
            marks.reverse()
        for mark, name in marks:
            most = header.max_msg_nums - len(found.records)
            if most > 0:
                await self._pop_topic(_Try(header, chosen, attempt, mark, name, most), found)
        return found

    async def _pop_topic(self, tried: _Try, found: _Found) -> None:
        """Pops from one topic."""
        header, mark, name, most = tried.header, tried.mark, tried.topic, tried.most
        group = header.consumer_group
        from_end = header.init_mode == _LATEST and mark == TOPIC
        request = Pop(
            group, name, header.queue_id if mark == TOPIC else -1, most,
            min(max(1, header.invisible_time), MOST_INVISIBLE_MS),
            start=self._pops.beginnings.of(name) if from_end else "earliest",
            single=True, in_order=header.order, attempt=tried.attempt, wait=header.poll_time > 0,
        )  # fmt: skip
        answer = await self._pops.pop(request)
        self._parts.progress.popped.add((group, header.topic))
        key, asked = (group, header.topic), self.slot(name, request.queue_id)
        found.left += answer.left
        found.now_ms = answer.now_ms
        if answer.next_ms:
            found.next_ms = min(found.next_ms or answer.next_ms, answer.next_ms)
            self._holds.expect(key, asked, answer.next_ms - answer.now_ms)
        settled: list[Settling] = []
        for lease in answer.leases:
            found.lease = found.lease or lease
            slot = self.slot(name, lease.queue_id)
            self._holds.expect(key, slot, lease.due_ms - answer.now_ms)
            room = MOST_BYTES - sum(map(len, found.records))
            taken = self._pops.read(name, lease, tried.chosen, room)
            taken.records = self._without_dead(tried, lease, taken, answer.retry_max_times)
            settled += _unused(name, lease, taken)
            self._add(tried, lease, taken, found)
        if answer.leases:
            self._holds.wake(key, asked)  # there may be more for the next one
        if settled:
            await self._pops.settle(group, settled)

    def _add(self, tried: _Try, lease: PoppedLease, taken: Taken, found: _Found) -> None:
        """Adds what was read of a lease to the answer."""
        more = lease.times - 1
        for offset, stored in taken.records:
            record = stored
            if tried.mark != TOPIC:
                receipt = Receipt.of(lease, tried.mark, self._broker_name, offset)
                record = as_original(stored, tried.header.topic, receipt)
            found.records.append(with_more_reconsume_times(record, more) if more else record)
        if taken.records:
            offsets = [offset for offset, _ in taken.records]
            found.infos.add(tried.mark, lease.queue_id, lease.first, offsets, more)

    def _without_dead(
        self, tried: _Try, lease: PoppedLease, taken: Taken, most: int
    ) -> list[tuple[int, bytes]]:
        """The messages of a lease that have not come too often. Others go to the dead letters."""
        if lease.times <= 1:
            return taken.records
        alive = []
        for offset, record in taken.records:
            if reconsume_times_of(record) + lease.times - 1 <= max(0, most):
                alive.append((offset, record))
            else:
                group = tried.header.consumer_group
                start(self._bury(group, tried.topic, lease, MessageView(record, offset)))
        return alive

    async def _bury(self, group: str, topic: str, lease: PoppedLease, message: MessageView) -> None:
        """Puts a message into the group's dead letters, then acknowledges it. It is leased for long
        enough first: nobody else gets it meanwhile, even if its time is a millisecond.
        """
        mask = 1 << (message.queue_offset - lease.first)
        taken = Settling(topic, lease.queue_id, lease.first, lease.popped_ms, mask, _BURY_MS)
        try:
            (held,) = await self._pops.settle(group, [taken])
            if not held.mask:
                return  # its time was over, and another pop has it
            dead = await self._parts.topics.retry(group, dead=True)
            record = with_more_reconsume_times(message.record, lease.times - 2)
            await self._send_back.store(MessageView(record, message.queue_offset), dead, 0, {})
            done = Settling(topic, lease.queue_id, held.first, held.popped_ms, 1)
            await self._pops.settle(group, [done])
        except (StoreError, OSError, Refused) as error:
            self._parts.logger.warning(
                "a message cannot go to the dead letters now", group=group, error=str(error)
            )

    def _answer(self, call: Call, header: _Header, found: _Found) -> Command:
        lease = found.lease
        assert lease is not None
        fields: dict[str, Any] = {
            "popTime": lease.popped_ms,
            "invisibleTime": lease.due_ms - lease.popped_ms,
            "reviveQid": IN_ORDER if header.order else 0,
            "restNum": found.left,
            **found.infos.fields(in_order=header.order),
        }
        self._parts.counts.pulled += len(found.records)
        texts = {name: str(value) for name, value in fields.items()}
        return call.request.answer(remark="FOUND", fields=texts, body=b"".join(found.records))

    async def peek(self, call: Call) -> Command:
        """The messages that a pop would get, without a lease."""
        header = parse(_Peek, call.request.fields)
        group, topic, most = header.consumer_group, header.topic, header.max_msg_nums
        await check_pop(self._parts, group, topic, header.queue_id, most)
        looked = await self._pops.look(Look(group, topic, header.queue_id))
        records: list[bytes] = []
        for queue in looked.queues:
            for lease in _leases_of(queue):
                room = MOST_BYTES - sum(map(len, records))
                taken = self._pops.read(topic, lease, None, room)
                records += [record for _, record in taken.records]
        records = records[: max(1, most)]
        left = sum(queue.end - queue.next for queue in looked.queues)
        fields = {"popTime": str(time.time_ns() // 1_000_000), "invisibleTime": "0"}
        fields |= {"reviveQid": "0", "restNum": str(max(0, left - len(records)))}
        code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
        return call.request.answer(code, fields=fields, body=b"".join(records))


def _attempt(header: _Header) -> int:
    """A number for the request. One in order that is repeated with its attemptId has the same."""
    if header.order and header.attempt_id:
        named = f"{header.consumer_group}\n{header.attempt_id}".encode()
        return int.from_bytes(hashlib.blake2b(named, digest_size=7).digest(), "big") or 1
    return random.getrandbits(62) | 1


def _leases_of(queue: LookedQueue) -> list[PoppedLease]:
    """What a pop could lease of a queue next."""
    found = [PoppedLease(queue.queue_id, first, 0, 0, mask, 1) for first, mask in queue.due]
    new = min(LEASE_MOST, queue.end - queue.next)
    if new > 0:
        found.append(PoppedLease(queue.queue_id, queue.next, 0, 0, (1 << new) - 1, 1))
    return found


def _unused(topic: str, lease: PoppedLease, taken: Taken) -> list[Settling]:
    """What becomes of the messages of a lease that are not answered."""
    named = (topic, lease.queue_id, lease.first, lease.popped_ms)
    pairs = ((taken.gone, -1), (taken.unread, -2))
    return [Settling(*named, mask, after_ms) for mask, after_ms in pairs if mask]
