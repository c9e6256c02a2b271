"""A session's membership in a consumer group: which queues the store has given it."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable

from ...shm._words import MOST_WORDS, OwnedWord, Word
from ...shm.mail import close_all
from ...store.groups.ack_file import AckWriter, Queue
from ..consuming.cursors import Source
from ..session import Connection
from .assigned_queue import AssignedQueue


class Membership:
    """The queues of a member that has joined. `order` are those it reads, `words` what it sleeps
    on: the word that says there is news, the bell of its own process, the queues' arrival words.
    """

    def __init__(self, link: Connection, source: Source) -> None:
        self._link = link
        self._source = source
        self._number = 0  # of the ack file
        self._dispatched = link.control.word("dispatched")
        self.heard = -1
        self.missed = 0
        self.held: dict[Queue, AssignedQueue] = {}
        self.order: list[AssignedQueue] = []
        self._bell = OwnedWord(mmap.mmap(-1, mmap.PAGESIZE), 0)
        self._ringing = threading.Lock()
        self.words: list[Word] = [link.notice, self._bell]

    def ring(self) -> None:
        """Wakes the thread of this process that sleeps on `words`, or is about to."""
        with self._ringing:
            self._bell.add(1)
        self._bell.wake()

    def has_news(self) -> bool:
        """Whether the store has another assignment for this member."""
        return self._link.notice.load() != self.heard  # SYNC: notice observe

    def keep_up(self, let_go: Callable[[list[Queue]], bool]) -> bool:
        """Takes the assignment that the store has given meanwhile, if there is a new one. `let_go`
        is asked whether queues can be given back now; if not, False. Raises HungUp.
        """
        heard = self._link.notice.load()  # SYNC: notice observe
        if heard != self.heard and not self._sync(let_go):
            return False
        self.heard = heard
        return True

    def _sync(self, let_go: Callable[[list[Queue]], bool]) -> bool:
        released: list[Queue] = []
        while True:
            request = {"do": "sync", "have": self._number, "released": released}
            answer, fds = self._link.ask(request)
            try:
                if "revoke" in answer:
                    lost = [(topic, queue_id) for topic, queue_id in answer["revoke"]]
                    if not let_go(lost):
                        return False
                    self._give_back(lost)
                    released += lost
                elif fds:
                    self._take(AckWriter(*fds), answer["number"])
                    released = []
                else:
                    return self._stay()
            finally:
                close_all(fds)

    def _stay(self) -> bool:
        """Queues that were to be given back, and now are not: read on where they were left."""
        for held in self.order:
            if held.leaving and not held.running:
                held.rewind()
        return not any(held.leaving for held in self.order)

    def _give_back(self, queues: list[Queue]) -> None:
        for queue in queues:
            held = self.held.pop(queue, None)
            if held is not None:
                self.missed += held.cursor.missed
                self._source.drop(held.cursor)
        self._arrange()

    def _take(self, writer: AckWriter, number: int) -> None:
        self._number = number
        for index, queue in enumerate(writer.about.queues):
            held = self.held.get(queue)
            if held is not None:
                held.take_over(writer, index)
                continue
            topic = self._link.table.find(queue[0])
            if topic is None:
                continue  # deleted: it will be asked back
            cursor = self._source.cursor(*queue, topic.slots[queue[1]], writer.offset(index))
            self.held[queue] = AssignedQueue(queue, cursor, writer, index)
        self._arrange()

    def _arrange(self) -> None:
        self.order = list(self.held.values())
        words = [held.cursor.arrival for held in self.order]
        if len(words) > MOST_WORDS - 2:
            words = [self._dispatched]
        self.words = [self._link.notice, self._bell, *words]
