"""What is leased to members that pop: the state of each popped queue, and its journal.

Two ways of reading may follow each other in a group, or overlap for a moment: members that pop, and
members that commit offsets (`group_offsets.py`). The group's offset in a queue is the larger of
both. What was committed counts as done here, and what is done here is where a member that commits
begins. A reset sets both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ...store.disk.files import Folder
from ...store.groups.lease_journal import (
    FOLDER,
    Key,
    Kind,
    LeaseJournal,
    lease_entry,
    offset_entry,
)
from ...store.groups.leases import Lease, QueueLeases

#: Bytes of the journal that changes of a lease take: of it, and of the one that it was part of.
CHANGE_SIZE = 96
#: Bytes that a queue takes that begins: its names have up to 382.
BEGIN_SIZE = 512
#: Queues of all groups, and leases of all queues, before no new message is leased.
_MOST_QUEUES = 1 << 17
_MOST_LEASES = 1 << 18


class Clock:
    """Epoch ms that never go back while the registry lives."""

    def __init__(self) -> None:
        self._start = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """The time."""
        return (self._start + time.monotonic_ns()) // 1_000_000


class PoppedQueues:
    """All popped queues of the store whose own folder is `ours`. Raises OSError."""

    def __init__(self, ours: Folder, logger: Any) -> None:
        self._logger = logger
        self.clock = Clock()
        self._journal = LeaseJournal(ours.folder(FOLDER, create=True))
        for problem in self._journal.problems:
            logger.error(
                "what was popped is not known: it comes again from the groups' saved offsets",
                problem=problem,
            )
        self._entries: list[bytes] = []
        #: Requests that the registry before this one may have served without an answer: their
        #: leases' queues, by attempt. A client repeats its request at once.
        self.inherited: dict[int, list[Key]] = {}
        #: How many leases there are.
        self.leases = 0
        self._bring_back()

    def _bring_back(self) -> None:
        """Takes over leases. Those of a clock that was set back end after the time they had."""
        now_ms = self.clock.now_ms()
        for key, queue in self._journal.queues.items():
            for lease in queue.leases.values():
                if lease.popped_ms > now_ms:
                    lease.due_ms += now_ms - lease.popped_ms
                if lease.attempt and lease.due_ms > now_ms:
                    self.inherited.setdefault(lease.attempt, []).append(key)
            queue.sort()
            self.leases += len(queue.leases)

    def find(self, key: Key) -> QueueLeases | None:
        """What a group has popped of a queue; None if nothing ever."""
        return self._journal.queues.get(key)

    def done(self, key: Key) -> int:
        """The group's offset by what it has popped, 0 if it has not."""
        queue = self._journal.queues.get(key)
        return 0 if queue is None else queue.done

    def all_done(self) -> Iterator[tuple[Key, int]]:
        """The offset of each group in each queue that it has popped."""
        return ((key, queue.done) for key, queue in self._journal.queues.items())

    def leased(self, group: str) -> tuple[int, int]:
        """How many messages members of a group have now, and when the oldest lease of them began
        (epoch ms; 0 without a lease). Leases whose time is over do not count.
        """
        now_ms = self.clock.now_ms()
        leases = [
            lease
            for key, queue in self._journal.queues.items()
            if key[0] == group
            for lease in queue.leases.values()
            if lease.due_ms > now_ms
        ]
        count = sum(lease.mask.bit_count() for lease in leases)
        return count, min((lease.popped_ms for lease in leases), default=0)

    def is_full(self) -> bool:
        """Whether there is no room for another queue."""
        return len(self._journal.queues) >= _MOST_QUEUES

    @property
    def may_lease(self) -> bool:
        """Whether new messages may be leased."""
        return self.leases < _MOST_LEASES

    # -- changes

    def reserve(self, size: int) -> None:
        """Makes room for changes of so many bytes. Raises OSError; then nothing has changed."""
        self._journal.reserve(size)

    def begin(self, key: Key, offset: int) -> QueueLeases:
        """Begins a queue. There must be room."""
        queue = QueueLeases(offset)
        self._journal.number_of(key, queue)
        return queue

    def change(self, key: Key, *leases: Lease) -> None:
        """Adds leases, as they are now, to what `publish` notes."""
        number = self._journal.numbers[key]
        self._entries += [lease_entry(number, lease) for lease in leases]

    def move(self, key: Key, offset: int) -> None:
        """Notes that everything below an offset is done, if that is new."""
        queue = self._journal.queues[key]
        if offset > queue.next or any(one.first < offset for one in queue.leases.values()):
            before = len(queue.leases)
            queue.move(offset)
            self.leases += len(queue.leases) - before
            self._entries.append(offset_entry(Kind.MOVE, self._journal.numbers[key], offset))

    def publish(self) -> None:
        """Notes all changes since the last call, in one step. There must be room."""
        if self._entries:
            entries, self._entries = b"".join(self._entries), []
            self._journal.note(entries)

    def take_over(self, key: Key, committed: int, end: int) -> None:
        """Brings what was popped of a queue in line with what was committed, and with the queue's
        end (-1: there is no such queue), when the store starts.
        """
        queue = self._journal.queues[key]
        self.leases -= len(queue.leases)
        queue.move(committed)
        if end >= 0 and queue.bound(end):
            self._logger.warning(
                "a group had popped behind the end of a queue: it goes on at the end",
                group=key[0], topic=key[1], queue=key[2], end=end,
            )  # fmt: skip
        self.leases += len(queue.leases)

    def keys(self) -> list[Key]:
        """All queues of all groups."""
        return list(self._journal.queues)

    def reset(self, key: Key, offset: int) -> None:
        """The group begins at an offset again, durably. Raises OSError."""
        queue = self._journal.queues.get(key)
        if queue is None:
            return
        self._journal.reserve(CHANGE_SIZE)
        self.leases -= len(queue.leases)
        self._journal.queues[key] = QueueLeases(offset)
        self._journal.note(offset_entry(Kind.BEGIN, self._journal.numbers[key], offset))
        self._journal.sync()

    def forget(self, group: str) -> None:
        """Forgets what a group has popped, durably. Raises OSError."""
        keys = [key for key in self._journal.queues if key[0] == group]
        self._journal.reserve(CHANGE_SIZE * len(keys))
        for key in keys:
            self.leases -= len(self._journal.queues[key].leases)
            self._journal.forget(key)
        if keys:
            self._journal.sync()
