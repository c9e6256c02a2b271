"""`QueueLeases`: which messages of a queue a group's members have popped, and until when.

A message that is popped is leased: nobody else of the group gets it until its lease ends. Then it
is *acknowledged* and never comes again, or it is *due*, and is handed out once more from the same
place in the queue, before newer messages. So a group is in a queue at three kinds of places: all
messages below `done` are acknowledged, those from `next` on were never handed out, and those
between are leased, due or acknowledged.

A lease holds up to 32 messages that lie close to each other: the queue offset `first`, and a mask
in which bit n stands for the message at `first` + n that is not acknowledged. Its name is `first`
and the time at which it was handed out. Each lease that has a message begins later than the one
before, so a name is never used twice, and a receipt with an old name moves nothing.

This module decides only. `lease_journal.py` keeps what it says, and the registry does it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

import msgspec

#: Messages of one lease: RocketMQ's most of one pop.
LEASE_MOST: Final = 32
#: So many leases a queue has before nobody gets new messages of it.
MOST_LEASES: Final = 10_000
_FULL: Final = (1 << LEASE_MOST) - 1
#: The heap of times may have so many entries of ended leases, and as many as four for each lease.
_STALE: Final = 256

Name = tuple[int, int]


class Lease(msgspec.Struct):
    """Messages that one member has until `due_ms`. `popped_ms` is when they were handed out, and
    `times` how often they have been. Times are epoch ms. `attempt` is the member's number of its
    request, 0 for none. Without a bit in `mask` the lease has ended.
    """

    first: int
    popped_ms: int
    due_ms: int
    times: int
    mask: int
    attempt: int = 0

    @property
    def name(self) -> Name:
        """What its receipts say, beside its queue."""
        return self.first, self.popped_ms

    @property
    def lowest(self) -> int:
        """The queue offset of the first message that is not acknowledged."""
        return self.first + (self.mask & -self.mask).bit_length() - 1


def _lowest_bits(mask: int, count: int) -> int:
    """The `count` lowest bits of a mask."""
    if mask.bit_count() <= count:
        return mask
    taken = 0
    for _ in range(count):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """The ranges of bits of a mask that are set, each with the bit behind it."""
    at = 0
    while mask >> at:
        begin = at + ((mask >> at) & -(mask >> at)).bit_length() - 1
        above = ~(mask >> begin)
        at = begin + (above & -above).bit_length() - 1
        yield begin, at


class QueueLeases:
    """The leases of one group in one queue. Methods that change leases return those changed, as
    they are afterwards.
    """

    def __init__(self, next_offset: int) -> None:
        #: The first queue offset that was never handed out.
        self.next = next_offset
        self.leases: dict[Name, Lease] = {}
        self._times: list[tuple[int, int, int]] = []  # a heap of (due_ms, *name)

    @property
    def done(self) -> int:
        """The queue offset of the first message that is not acknowledged."""
        return min((lease.lowest for lease in self.leases.values()), default=self.next)

    @property
    def due_ms(self) -> int:
        """When the next lease ends that has not been handed out again; 0 if there is none."""
        times = self._times
        while times:
            due_ms, *name = times[0]
            if (name[0], name[1]) in self.leases:
                return due_ms
            heapq.heappop(times)
        return 0

    # -- handing out

    def take_new(self, end: int, now_ms: int, due_ms: int, most: int, attempt: int) -> Lease | None:
        """Leases messages that were never handed out, below the queue's `end`. None if there is
        none, or if too many leases have not ended.
        """
        count = min(most, LEASE_MOST, end - self.next)
        if count <= 0 or len(self.leases) >= MOST_LEASES:
            return None
        lease = Lease(self.next, now_ms, due_ms, 1, (1 << count) - 1, attempt)
        self.next += count
        self._add(lease)
        return lease

    def take_due(
        self, now_ms: int, due_ms: int, most: int, attempt: int, *, in_order: bool = False
    ) -> tuple[Lease, Lease] | None:
        """Hands out again what was not acknowledged in time, of one lease. Returns the new lease
        and the old one. None if nothing is due. With `in_order` the first message of the queue
        comes first, else the one that waits longest.
        """
        old = self._first_due(now_ms) if in_order else self._longest_due(now_ms)
        if old is None:
            return None
        new = Lease(old.first, now_ms, due_ms, old.times + 1, _lowest_bits(old.mask, most), attempt)
        return self._split(old, new)

    def _longest_due(self, now_ms: int) -> Lease | None:
        due_ms = self.due_ms
        if not due_ms or due_ms > now_ms:
            return None
        _, first, popped_ms = self._times[0]
        return self.leases[first, popped_ms]

    def _first_due(self, now_ms: int) -> Lease | None:
        due = (lease for lease in self.leases.values() if lease.due_ms <= now_ms)
        return min(due, key=lambda lease: lease.lowest, default=None)

    def is_held(self, now_ms: int) -> bool:
        """Whether a lease has not ended: then members that read in order get nothing."""
        return any(lease.due_ms > now_ms for lease in self.leases.values())

    def held_by(self, attempt: int, now_ms: int) -> list[Lease]:
        """The leases of a member's request that have not ended."""
        return [
            lease
            for lease in self.leases.values()
            if lease.attempt == attempt and lease.due_ms > now_ms
        ]

    def _split(self, old: Lease, new: Lease) -> tuple[Lease, Lease]:
        """Moves messages of a lease into a new one, in which they still have the old one's bits."""
        old.mask &= ~new.mask
        if not old.mask:
            del self.leases[old.name]
        shift = (new.mask & -new.mask).bit_length() - 1
        new.first, new.mask = new.first + shift, new.mask >> shift
        new.popped_ms = max(new.popped_ms, old.popped_ms + 1)
        new.due_ms = max(new.due_ms, new.popped_ms + 1)
        self._add(new)
        return new, old

    def _add(self, lease: Lease) -> None:
        self.leases[lease.name] = lease
        if len(self._times) > _STALE + 4 * len(self.leases):
            self.sort()
        else:
            heapq.heappush(self._times, (lease.due_ms, *lease.name))

    def sort(self) -> None:
        """Makes the order of times anew."""
        self._times = [(lease.due_ms, *lease.name) for lease in self.leases.values()]
        heapq.heapify(self._times)

    # -- what members say

    def acknowledge(self, name: Name, mask: int) -> tuple[Lease, int] | None:
        """Acknowledges messages of a lease. Returns it, and those that were not acknowledged
        before. None if it has none of them: it has ended, or they were handed out again.
        """
        lease = self.leases.get(name)
        if lease is None or not lease.mask & mask:
            return None
        found = lease.mask & mask
        lease.mask ^= found
        if not lease.mask:
            del self.leases[name]
        return lease, found

    def postpone(
        self, name: Name, mask: int, now_ms: int, due_ms: int, *, unseen: bool = False
    ) -> tuple[Lease, Lease] | None:
        """Gives messages of a lease another end. Returns their new lease and the old one, None as
        `acknowledge`. With `unseen` no consumer has got them: this hand-out does not count.
        """
        lease = self.leases.get(name)
        if lease is None or not lease.mask & mask:
            return None
        times = lease.times - 1 if unseen else lease.times
        return self._split(lease, Lease(lease.first, now_ms, due_ms, times, lease.mask & mask))

    # -- what else happens to a queue

    def restore(self, lease: Lease) -> None:
        """Puts in a lease as it was noted. `sort` must follow before leases are handed out."""
        self.next = max(self.next, lease.first + lease.mask.bit_length())
        if lease.mask:
            self.leases[lease.name] = lease
        else:
            self.leases.pop(lease.name, None)

    def move(self, offset: int) -> None:
        """Everything below a queue offset has been consumed in another way, or is gone."""
        self.next = max(self.next, offset)
        for lease in [lease for lease in self.leases.values() if lease.first < offset]:
            below = offset - lease.first
            lease.mask &= _FULL ^ ((1 << below) - 1) if below < LEASE_MOST else 0
            if not lease.mask:
                del self.leases[lease.name]

    def bound(self, end: int) -> bool:
        """The queue ends at `end`: a power cut has removed what lay behind. Whether that changes
        anything.
        """
        if self.next <= end:
            return False
        self.next = end
        for lease in list(self.leases.values()):
            lease.mask &= (1 << max(0, end - lease.first)) - 1
            if not lease.mask:
                del self.leases[lease.name]
        return True
