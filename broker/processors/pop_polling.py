"""Whether there is something to pop: NOTIFICATION and POLLING_INFO (RocketMQ's
NotificationProcessor, PollingInfoProcessor).
"""

from __future__ import annotations

import time
from typing import Annotated, Final

import msgspec

from ...shm.protocol.pops import Look
from ..wire.codes import RequestCode
from ..wire.command import Command
from ..wire.headers import parse
from .calls import Call, Handlers
from .parts import Parts
from .pop import PopProcessor
from .pop_checks import check_pop

_EARLY_MS: Final = 50
_LONGEST_HOLD_MS: Final = 60_000
_LOOK_S: Final = 5.0


class _Queue(msgspec.Struct, rename="camel"):
    consumer_group: str
    topic: str
    queue_id: int


class _Notification(_Queue, rename="camel"):
    poll_time: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    born_time: int = 0
    order: bool = False


class PopPollingProcessor:
    """Tells consumers when a pop would find messages."""

    def __init__(self, parts: Parts, pop: PopProcessor) -> None:
        self._parts = parts
        self._pops = parts.pops
        self._holds = parts.pop_holds
        self._pop = pop

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.NOTIFICATION: self.notify,
            RequestCode.POLLING_INFO: self.count,
        }

    async def notify(self, call: Call) -> Command:
        """Whether there are messages, as soon as there are, or at the end of the poll's time."""
        header = parse(_Notification, call.request.fields)
        group, topic = header.consumer_group, header.topic
        await check_pop(self._parts, group, topic, header.queue_id, 1)
        now_ms = time.time_ns() // 1_000_000
        born_ms = min(header.born_time, now_ms) if header.born_time > 0 else now_ms
        hold_ms = min(header.poll_time, _LONGEST_HOLD_MS) - (now_ms - born_ms) - _EARLY_MS
        deadline = time.monotonic() + max(0, hold_ms) / 1000
        has, full = False, False
        while not call.connection.closed:
            topics = await self._pop.topics(group, topic)
            places = self._pop.places(topics, header.queue_id)
            has, next_ms = await self._look(header, topics)
            if has or time.monotonic() >= deadline:
                break
            if self._holds.is_full((group, topic)):
                full = True
                break
            until = min(deadline, time.monotonic() + _LOOK_S)
            if next_ms:
                until = min(until, time.monotonic() + next_ms / 1000 - time.time())
            await self._holds.wait((group, topic), places, until, call.connection)
            call.check()
        fields = {"hasMsg": str(has).lower(), "pollingFull": str(full).lower()}
        if has:
            self._holds.wake((group, topic), self._pop.slot(topic, header.queue_id))
        return call.request.answer(fields=fields)

    async def _look(self, header: _Notification, topics: dict[str, str]) -> tuple[bool, int]:
        """Whether a pop would find messages now, and when the next lease ends (epoch ms)."""
        next_ms = 0
        group = header.consumer_group
        for mark, name in topics.items():
            queue_id = header.queue_id if mark == "0" else -1
            looked = await self._pops.look(
                Look(group, name, queue_id, wait=header.poll_time > 0, in_order=header.order)
            )
            if looked.queues:
                return True, 0
            if looked.next_ms:
                next_ms = min(next_ms or looked.next_ms, looked.next_ms)
        return False, next_ms

    async def count(self, call: Call) -> Command:
        """How many pops of a group and topic are held."""
        header = parse(_Queue, call.request.fields)
        group, topic = header.consumer_group, header.topic
        await check_pop(self._parts, group, topic, header.queue_id, 1)
        return call.request.answer(fields={"pollingNum": str(self._holds.count((group, topic)))})
