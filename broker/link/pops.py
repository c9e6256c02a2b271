"""`Pops`: what the broker asks the store's registry for members that pop, and reads for them.

Acknowledgements of one group that come while another request of it is under way go together in the
next one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from ...shm.protocol.pop_answers import (
    Looked,
    Mode,
    Popped,
    PoppedLease,
    SettledLease,
)
from ...shm.protocol.pops import MOST_SETTLED, AskModes, Look, Pop, SetMode, Settle, Settling
from ...store.errors import StoreError
from ...store.filters.tags import MessageFilter
from ...store.groups.leases import runs
from ...store.names import is_light_queue
from ...store.record.fields import head_of
from ..loop.tasks import Waiter, start
from .reading import Reading
from .store import StoreLink

#: For so long (s), and of so many topics, it is known where new groups begin.
_KNOWN_FOR_S: Final = 1.0
_MOST_KNOWN: Final = 10_000


class Taken(msgspec.Struct):
    """What was read of a lease: records with their queue offsets. Bits of `gone` stand for messages
    that the filter does not take or that are not in the store any more, those of `unread` for
    messages for which there was no room.
    """

    records: list[tuple[int, bytes]] = []
    gone: int = 0
    unread: int = 0


class Beginnings:
    """Where a new group that asks for the latest messages begins in a topic. As in RocketMQ 5, it
    begins at the first message of a topic that is whole and counts as in memory. So it gets what
    was sent just before its first pop.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._known: dict[str, Literal["earliest", "latest"]] = {}
        self._until = 0.0

    def of(self, topic: str) -> Literal["earliest", "latest"]:
        """The answer for a topic, looked at anew after a second."""
        now = time.monotonic()
        if now >= self._until or len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._until = now + _KNOWN_FOR_S
        found = self._known.get(topic)
        if found is None:
            whole = self._reading.is_whole_in_memory(topic)
            found = self._known[topic] = "earliest" if whole else "latest"
        return found


class Pops:
    """Requests of the link's session. They raise as `StoreLink.ask`."""

    def __init__(self, link: StoreLink, reading: Reading) -> None:
        self._link = link
        self._reading = reading
        self.beginnings = Beginnings(reading)
        self._waiting: dict[str, list[tuple[list[Settling], Waiter[list[SettledLease]]]]] = {}

    async def pop(self, request: Pop) -> Popped:
        """Leases messages."""
        return await self._link.ask(request)

    async def look(self, request: Look) -> Looked:
        """What a pop would find."""
        return await self._link.ask(request)

    async def set_mode(self, request: SetMode) -> None:
        """Sets how a group reads a topic."""
        await self._link.ask(request)

    async def modes(self) -> list[Mode]:
        """How groups read topics, as far as it was set."""
        return (await self._link.ask(AskModes())).modes

    async def settle(self, group: str, settled: list[Settling]) -> list[SettledLease]:
        """Says what has become of leases, at most 4,096 of them."""
        assert len(settled) <= MOST_SETTLED
        if not settled:
            return []
        waiter: Waiter[list[SettledLease]] = Waiter()
        waiting = self._waiting.get(group)
        if waiting is not None:
            waiting.append((settled, waiter))
        else:
            self._waiting[group] = [(settled, waiter)]
            start(self._settle(group))
        return await waiter

    async def _settle(self, group: str) -> None:
        """Asks until nothing waits for the group."""
        while waiting := self._waiting[group]:
            batch = [waiting.pop(0)]
            count = len(batch[0][0])
            while waiting and count + len(waiting[0][0]) <= MOST_SETTLED:
                count += len(waiting[0][0])
                batch.append(waiting.pop(0))
            try:
                request = Settle(group, [one for settled, _ in batch for one in settled])
                found = iter((await self._link.ask(request)).settled)
            except (StoreError, OSError) as error:
                for _, waiter in batch:
                    waiter.fail(error)
                continue
            for settled, waiter in batch:
                waiter.set([next(found) for _ in settled])
        del self._waiting[group]

    def read(
        self, topic: str, lease: PoppedLease, chosen: MessageFilter | None, room: int
    ) -> Taken:
        """The records of a lease, of `room` bytes together, or one record. Raises Corrupt."""
        taken = Taken()
        light = is_light_queue(topic)
        for begin, end in runs(lease.mask):
            at, stop = lease.first + begin, lease.first + end
            while at < stop and room > 0:
                read = self._reading.read(
                    topic, lease.queue_id, at, most=stop - at, max_bytes=room, chosen=chosen
                )
                for number, record in enumerate(_split(read.records)):
                    offset = at + number if light else head_of(record).queue_offset
                    if offset < stop:  # a filter may find others behind
                        taken.records.append((offset, record))
                        room -= len(record)
                if read.next <= at:
                    break
                behind = min(read.next, stop)
                taken.gone |= _bits(at - lease.first, behind - lease.first)
                at = behind
            taken.unread |= _bits(at - lease.first, end)
        for offset, _ in taken.records:
            taken.gone &= ~(1 << offset - lease.first)
        return taken


def _bits(begin: int, end: int) -> int:
    return (1 << end) - (1 << begin)


def _split(records: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(records):
        size = head_of(records, at).total_size
        yield records[at : at + size]
        at += size
