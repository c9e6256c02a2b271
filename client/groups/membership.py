"""`Membership`: which queues the store has assigned to this member of a consumer group."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from typing import NamedTuple

from ...shm._words import MOST_WORDS, OwnedWord, Word, values
from ...shm.protocol.answers import Revoke
from ...shm.protocol.requests import Busy, Sync
from ...store.groups.ack_file import AckWriter, Queue
from .._bell import Bell
from ..consuming._mapped_queue import unread
from ..consuming.cursor import Cursor
from ..consuming.store_view import StoreView
from ..session import Connection
from . import sign_of_life
from ._assigned_queue import AssignedQueue


class Watch(NamedTuple):
    """Shared words with the values that they had before the queues were read: when one has changed,
    there is something new. `settled` is False while a revoked queue cannot be given back yet.
    """

    words: list[Word]
    seen: list[int]
    settled: bool


class Membership:
    """The queues of a member that has joined a group.

    `assigned` maps (topic, queue id) to each queue, `queues` lists them. `words` are the shared
    words that the member sleeps on: the notice (the registry changes it when the assignment
    changes), a word of this process (`wake`), and the arrival words of the queues.
    """

    def __init__(self, link: Connection, view: StoreView) -> None:
        self._link = link
        self._view = view
        self._ack_file = 0  # the number of the ack file that is written here; 0: none
        self._released: list[Queue] = []  # given back, of which the store may not know yet
        self._dispatched = link.control.word("dispatched")
        self.notice_seen = -1
        self._missed = 0  # in queues that were given back
        self._turn = 0
        self.assigned: dict[Queue, AssignedQueue] = {}
        self.queues: list[AssignedQueue] = []
        self._cursors: list[Cursor] = []  # of `queues`
        page = mmap.mmap(-1, mmap.PAGESIZE)
        self._bell = OwnedWord(page, 0)
        self._over = OwnedWord(page, 8)
        self._waking = threading.Lock()
        self._own_bell: Bell | None = None
        self.words: list[Word] = [link.notice, self._bell]

    @property
    def missed(self) -> int:
        """How many messages the store removed before this member read them."""
        return self._missed + sum(assigned.cursor.missed for assigned in self.queues)

    def wake(self) -> None:
        """Wakes the thread of this process that sleeps on `words`, or is about to."""
        with self._waking:
            self._bell.add(1)
        self._bell.wake()

    def watch_with(self, bell: Bell) -> None:
        """Has the session's own bell rung for the queues of this member, whatever they are."""
        self._own_bell = bell
        self._arrange()

    def answer_when_busy(self) -> None:
        """Starts the thread that answers the store while the reader cannot."""
        sign_of_life.start(self, self._link.notice, self._over)

    def owes_answer(self) -> bool:
        """Whether the store has notified this member, and it has not taken its assignment since. A
        member that has taken none yet has nothing to give back, and owes none.
        """
        return self.notice_seen >= 0 and self.has_new_assignment()

    def say_busy(self) -> None:
        """Tells the store that this process runs, though it does not give back queues yet. Raises
        StoreError.
        """
        self._link.request(Busy())

    def end(self) -> None:
        """Ends the thread of `answer_when_busy`."""
        sign_of_life.end(self._over)

    def has_new_assignment(self) -> bool:
        """Whether the store has changed this member's assignment since it was last taken."""
        return self._link.notice.load() != self.notice_seen  # SYNC: notice observe

    def take_assignment(self, release: Callable[[list[Queue]], bool]) -> Watch:
        """Takes the newest assignment, if the store has changed it. Returns the words to sleep on,
        as they are before the queues are read.

        It takes two steps, so that no two members read a queue at once: this member gives the
        revoked queues back, and the store then assigns them again. `release` is called with the
        queues that are revoked and says whether they can be given back now. If they cannot, the
        watch is not settled, and the next call asks again. Raises HungUp.
        """
        notice = self._link.notice.load()  # SYNC: notice observe
        settled = notice == self.notice_seen or self._sync(release)
        seen = values(self.words)
        if settled:
            self.notice_seen = seen[0] = notice
        return Watch(self.words, seen, settled)

    def unread(self) -> list[AssignedQueue]:
        """Those of `queues` that have messages to read."""
        queues = self.queues
        return [queues[i] for i in unread(self._cursors)]

    def next_turn(self) -> list[AssignedQueue]:
        """The queues with messages to read, in an order that begins with another one at each call.
        A turn without any counts as a read that found none.
        """
        queues, found = self.queues, unread(self._cursors)
        first = self._turn % max(1, len(queues))
        self._turn += 1
        if not found:
            self._link.reads.find(None)
        order = [i for i in found if i >= first] + [i for i in found if i < first]
        return [queues[i] for i in order]

    def _sync(self, release: Callable[[list[Queue]], bool]) -> bool:
        while True:
            answer, fds = self._link.ask(Sync(self._ack_file, self._released))
            try:
                if isinstance(answer, Revoke):
                    if not release(answer.revoke):
                        return False
                    self._give_back(answer.revoke)
                    self._released += answer.revoke
                elif fds:
                    self._take(AckWriter(*fds), answer.number)
                    self._released = []
                else:
                    return self._resume_kept()
            finally:
                self._link.drop(fds)

    def _resume_kept(self) -> bool:
        """Rewinds queues that were revoked and then left with this member. Returns False while
        callbacks still work on one of them.
        """
        for assigned in self.queues:
            if assigned.revoked and not assigned.in_work:
                assigned.rewind()
        return not any(assigned.revoked for assigned in self.queues)

    def _give_back(self, queues: list[Queue]) -> None:
        for queue in queues:
            assigned = self.assigned.pop(queue, None)
            if assigned is not None:
                self._missed += assigned.cursor.missed
                self._view.remove(assigned.cursor)
        self._arrange()

    def _take(self, writer: AckWriter, number: int) -> None:
        """Continues with the ack file `number`, which names the queues that are assigned now."""
        self._ack_file = number
        names = {topic for topic, _ in writer.about.queues}
        topics = {name: self._link.table.find(name) for name in names}
        for index, queue in enumerate(writer.about.queues):
            assigned = self.assigned.get(queue)
            if assigned is not None:
                assigned.move_to(writer, index)
                continue
            topic = topics[queue[0]]
            if topic is None:
                continue  # the topic was deleted: the store will revoke the queue
            cursor = self._view.cursor(*queue, topic.slots[queue[1]], writer.offset(index))
            self.assigned[queue] = AssignedQueue(queue, cursor, writer, index)
        self._arrange()

    def _arrange(self) -> None:
        self.queues = list(self.assigned.values())
        self._cursors = [assigned.cursor for assigned in self.queues]
        words = [assigned.cursor.arrival for assigned in self.queues]
        if len(words) > MOST_WORDS - 2:
            words = [self._dispatched]
        self.words = [self._link.notice, self._bell, *words]
        if self._own_bell is not None:
            self._own_bell.watch_none()
            for assigned in self.queues:
                self._own_bell.watch(assigned.cursor.slot)
