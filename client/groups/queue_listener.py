"""`QueueListener`: gives the messages of a member's assigned queues to a callback."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from ...store.errors import CorruptRange, StoreError
from ...store.groups.ack_file import Queue
from ..consuming.message_view import MessageView
from ..errors import NotHandedOut, StoreClosed
from ._assigned_queue import AssignedQueue
from .group_reader import TICK_S, GroupReader
from .listener import Listener

#: At most this many messages of one queue are taken at once.
_BATCH = 32
#: A message that the store did not accept back is sent again after this time (s).
_RETRY_S = 1.0
_Task = tuple[AssignedQueue, list[MessageView]]


class QueueListener(Listener):
    """Listens to the queues that are assigned to a member.

    One thread reads messages and makes tasks of them. With a `concurrency` of 1 it runs the tasks
    as well; otherwise `concurrency` threads run them. Then a task is one message, unless `orderly`
    is set; else it is all that was read of one queue.
    """

    def __init__(
        self,
        reader: GroupReader,
        callback: Callable[[MessageView], object],
        *,
        concurrency: int,
        orderly: bool,
        suspend_ms: int,
        delay_level: int,
        max_pending: int,
        max_pending_bytes: int,
    ) -> None:
        super().__init__(reader, callback)
        self._reader = reader
        self._orderly = orderly
        self._suspend_s = suspend_ms / 1000
        self._delay_level = delay_level
        self._max_pending = max_pending
        self._max_pending_bytes = max_pending_bytes
        self._pending = self._pending_bytes = 0
        self._count = threading.Lock()
        self._is_quick = concurrency == 1 and not orderly
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        reader.before_release(self._stop_work)
        self._start(concurrency if concurrency > 1 else 0)

    def _end(self) -> None:
        self._stopping = True
        for _ in self._workers:
            self._tasks.put(None)

    # -- reading

    def _run(self) -> None:
        try:
            self._take_turns()
        finally:
            self._end()
            self._reader.before_release(None)  # the two no longer refer to each other
            if self._closing:
                for worker in self._workers:
                    worker.join()
                self._reader.close()

    def _turn(self) -> None:
        """Runs or queues tasks for the messages that are available now. Then sleeps, unless there
        are others by now: the sleep gives the lease back. What comes after `watch` was made ends
        the sleep at once.
        """
        reader = self._reader
        if self._is_quick:
            self._take_quick_turns()
            if self._stopping:
                return
        with reader.lock:
            watch = reader.take_assignment()
            tasks = self._gather() if watch.settled else []
        for task in tasks:
            if self._workers:
                self._tasks.put(task)
            else:
                self._consume(*task)
        if not (self._stopping or (tasks and self._has_more())):
            reader.sleep(watch, self._until_resumed())

    def _has_more(self) -> bool:
        with self._reader.lock:
            return bool(self._reader.membership.unread())

    def _take_quick_turns(self) -> None:
        """Takes turns as long as there is nothing but messages to see to."""
        limit = min(_BATCH, self._max_pending)
        left = self._reader.quick.call_back(self, limit, self._max_pending_bytes)
        if left is not None:
            self._add_work(*left)
            self._consume(*left)

    def _gather(self) -> list[_Task]:
        """Tasks for the next messages of each queue that is neither revoked nor suspended. With the
        reader's lock held.
        """
        tasks: list[_Task] = []
        now = time.monotonic()
        for assigned in self._worth_a_look():
            room = min(_BATCH, self._max_pending - self._pending)
            if room <= 0 or self._pending_bytes >= self._max_pending_bytes:
                break
            if assigned.revoked or (
                self._orderly and (assigned.in_work or assigned.resume_at > now)
            ):
                continue
            messages = assigned.suspended or self._read(assigned, room)
            assigned.suspended = []
            if messages:
                self._add_work(assigned, messages)
                if self._orderly or not self._workers:
                    tasks.append((assigned, messages))
                else:
                    tasks += [(assigned, [message]) for message in messages]
        if not tasks:
            self._reader.count_miss()
        return tasks

    def _worth_a_look(self) -> list[AssignedQueue]:
        """The queues with messages to read, and those that are suspended: with messages that were
        read before.
        """
        unread = self._reader.membership.unread()
        if not self._orderly:
            return unread
        among = set(unread)
        return [one for one in self._reader.queues if one.suspended or one in among]

    def _read(self, assigned: AssignedQueue, room: int) -> list[MessageView]:
        """The next messages of a queue. A declared hole ends the listener with CorruptRange, once
        the messages before it are done; the next listener goes on behind it.
        """
        try:
            return self._reader.read(assigned, room, self._max_pending_bytes)
        except CorruptRange as hole:
            if assigned.in_work:
                return []
            assigned.pass_hole(hole)
            raise

    def _add_work(self, assigned: AssignedQueue, messages: list[MessageView]) -> None:
        """Counts messages that wait for a callback or are in one."""
        with self._count:
            assigned.in_work += len(messages)
            self._pending += len(messages)
            self._pending_bytes += sum([message.size for message in messages])

    def _end_work(self, assigned: AssignedQueue, message: MessageView) -> None:
        """No longer counts a message."""
        with self._count:
            assigned.in_work -= 1
            self._pending -= 1
            self._pending_bytes -= message.size

    def _until_resumed(self) -> float:
        """Seconds until the next suspended queue may continue."""
        if not self._orderly:
            return TICK_S
        now = time.monotonic()
        due = [assigned.resume_at - now for assigned in self._reader.queues if assigned.suspended]
        return max(0.0, min([*due, TICK_S]))

    def _stop_work(self, queues: list[Queue]) -> bool:
        """Begins no more callbacks on these queues, because the store revokes them. Returns whether
        none of them has messages in work. With the reader's lock held.
        """
        is_free = True
        for assigned in self._reader.queues:
            if assigned.queue in queues:
                assigned.revoked = True
                is_free &= assigned.in_work == 0
        return is_free

    # -- consuming

    def _work(self) -> None:
        """Runs tasks, in a worker thread, until the listener ends."""
        while (task := self._tasks.get()) is not None:
            try:
                self._consume(*task)
            except Exception as error:  # noqa: BLE001 - `wait` raises it, whatever it is
                self._fail(error)
                self._stopping = True
            self._reader.wake()

    def _consume(self, assigned: AssignedQueue, messages: list[MessageView]) -> None:
        """Calls the callback for messages of one queue, in order."""
        done = 0
        while done < len(messages) and self._goes_on(assigned):
            if not self._workers and self._reader.membership.has_new_assignment():
                # Without workers, no other thread takes the assignment while this one runs
                # callbacks. The rest of the task must not count as work meanwhile: a revoked queue
                # could not be given back. One that was revoked before is left first: if it stays
                # with this member, its messages are read again.
                with self._reader.lock:
                    self._leave(assigned, messages[done:])
                    self._reader.take_assignment()
                    self._add_work(assigned, messages[done:])
                if not self._goes_on(assigned):
                    break
            message = messages[done]
            if self._call(message):
                self._reader.ack_in(assigned, message)
            elif self._orderly:
                if not self._suspend(assigned, messages[done:]):
                    break
            else:
                self._send_back(message)
            self._end_work(assigned, message)
            done += 1
            assigned.tries = 0
        self._leave(assigned, messages[done:])

    def _goes_on(self, assigned: AssignedQueue) -> bool:
        """Whether callbacks for messages of the queue may begin."""
        return not (self._stopping or assigned.revoked)

    def _leave(self, assigned: AssignedQueue, messages: list[MessageView]) -> None:
        for message in messages:
            self._end_work(assigned, message)

    def _suspend(self, assigned: AssignedQueue, left: list[MessageView]) -> bool:
        """Suspends the queue at the first message of `left`, which was not consumed: all of them
        are tried again. Returns True if this was the last try: then the message went to the dead
        letters instead.
        """
        assigned.tries += 1
        if assigned.tries > self._reader.max_reconsume_times:
            self._send_back(left[0], to_dead_letters=True)
            return True
        assigned.suspended = left
        assigned.resume_at = time.monotonic() + self._suspend_s
        return False

    def _send_back(self, message: MessageView, *, to_dead_letters: bool = False) -> None:
        """Sends a message back, and repeats that until the store accepts it. Otherwise the message
        would come again only when its queue goes to another member.
        """
        delay_level = -1 if to_dead_letters else self._delay_level
        while not self._stopping:
            try:
                self._reader.nack(message, delay_level)
            except NotHandedOut:
                return  # the callback has acknowledged it, or sent it back itself
            except StoreClosed:
                raise
            except StoreError as error:
                self._log.warning("cannot send a message back, trying again: %s", error)
                time.sleep(_RETRY_S)
            else:
                return
