"""`Listener`: a consumer's messages, given to a callback."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...store.errors import StoreError
from ...store.groups.ack_file import Queue
from ..consuming.message_view import MessageView
from ..errors import StoreClosed
from .assigned_queue import AssignedQueue
from .iterating import TICK_S

if TYPE_CHECKING:
    from .group_consumer import GroupConsumer

_BATCH = 32
_RETRY_S = 1.0
_Task = tuple[AssignedQueue, list[MessageView]]


class Listener:
    """Calls `callback` for each message of `consumer`, with `concurrency` threads.

    A callback that returns anything but False has consumed the message, which is acknowledged then.
    One that returns False or raises has not: the message is sent back and comes again later, and to
    the dead letters at last. With `orderly` the messages of a queue come strictly one after the
    other, and a message that is not consumed holds up its queue: it is tried again every
    `suspend_ms`, and goes to the dead letters after `max_reconsume_times` more tries. `delay_level`
    is how much later a message that was sent back comes again (0: from 10 s on, later each time).

    At most `max_pending` messages and `max_pending_bytes` bytes wait for a thread. With one thread
    the callback is called where the message arrives, without a hand-over.
    """

    def __init__(
        self,
        consumer: GroupConsumer,
        callback: Callable[[MessageView], object],
        *,
        concurrency: int = 1,
        orderly: bool = False,
        suspend_ms: int = 1000,
        delay_level: int = 0,
        max_pending: int = 1000,
        max_pending_bytes: int = 100 << 20,
    ) -> None:
        if concurrency < 1 or max_pending < 1 or max_pending_bytes < 1 or suspend_ms < 0:
            raise ValueError("concurrency, max_pending and max_pending_bytes are at least 1")
        self.consumer = consumer
        self.callback = callback
        self.orderly = orderly
        self.suspend_s = suspend_ms / 1000
        self.delay_level = delay_level
        self.max_pending = max_pending
        self.max_pending_bytes = max_pending_bytes
        self.error: StoreError | OSError | None = None
        self._stopping = False
        self._log = logging.getLogger("silomq")
        self._pending = self._pending_bytes = 0
        self._count = threading.Lock()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._main = threading.Thread(target=self._run, name="silomq-listen", daemon=True)
        self._workers = [
            threading.Thread(target=self._work, name=f"silomq-listen-{i}", daemon=True)
            for i in range(concurrency if concurrency > 1 else 0)
        ]

    def start(self) -> None:
        for thread in (self._main, *self._workers):
            thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Until the listener has ended: whether it has. Raises what ended it, StoreClosed for
        instance.
        """
        self._main.join(timeout)
        if self.error is not None:
            raise self.error
        return not self._main.is_alive()

    def stop(self) -> None:
        """Ends after the callbacks that are running; what was not begun comes again."""
        self._stopping = True
        for _ in self._workers:
            self._tasks.put(None)
        for thread in (self._main, *self._workers):
            while thread.is_alive() and thread is not threading.current_thread():
                self.consumer.rouse()
                thread.join(0.05)

    # -- reading

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except (StoreError, OSError) as error:
            if not (self._stopping and isinstance(error, StoreClosed)):
                self.error = error
        finally:
            self._stopping = True
            for _ in self._workers:
                self._tasks.put(None)

    def _turn(self) -> None:
        """Hands out what there is; sleeps if that is nothing."""
        consumer = self.consumer
        with consumer.lock:
            words, seen, settled = consumer.keep_up()
            tasks = self._gather() if settled else []
        for task in tasks:
            if self._workers:
                self._tasks.put(task)
            else:
                self._consume(*task)
        if not tasks:
            consumer.sleep(words, seen, self._patience() if settled else 0.01)

    def _gather(self) -> list[_Task]:
        """The next messages of every queue that may go on. For the consumer's lock."""
        tasks: list[_Task] = []
        now = time.monotonic()
        for held in self.consumer.order:
            room = min(_BATCH, self.max_pending - self._pending)
            if room <= 0 or self._pending_bytes >= self.max_pending_bytes:
                break
            if held.leaving or (self.orderly and (held.running or held.resume_at > now)):
                continue
            messages = held.again or self.consumer.read(held, room, self.max_pending_bytes)
            held.again = []
            if messages:
                self._hold(held, messages, 1)
                if self.orderly:
                    tasks.append((held, messages))
                else:
                    tasks += [(held, [message]) for message in messages]
        return tasks

    def _hold(self, held: AssignedQueue, messages: list[MessageView], sign: int) -> None:
        with self._count:
            held.running += sign * len(messages)
            self._pending += sign * len(messages)
            self._pending_bytes += sign * sum(message.size for message in messages)

    def _patience(self) -> float:
        """Until a suspended queue goes on."""
        now = time.monotonic()
        due = [held.resume_at - now for held in self.consumer.order if held.again]
        return max(0.0, min([*due, TICK_S]))

    def let_go(self, queues: list[Queue]) -> bool:
        """The consumer is to give these queues back: whether no callback is at work on them. For
        the consumer's lock.
        """
        free = True
        for held in self.consumer.order:
            if held.queue in queues:
                held.leaving = True
                free &= held.running == 0
        return free

    # -- consuming

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._consume(*task)
            except (StoreError, OSError) as error:
                self.error = self.error or error
                self._stopping = True
            self.consumer.rouse()

    def _consume(self, held: AssignedQueue, messages: list[MessageView]) -> None:
        """Calls the callback for messages of one queue, in order."""
        left = list(messages)
        while left and not self._stopping and not held.leaving:
            message = left[0]
            if self._call(message):
                self.consumer.ack_in(held, message)
            elif self.orderly:
                if not self._suspend(held, message, left):
                    break
            else:
                self._send_back(message, self.delay_level)
            self._hold(held, left[:1], -1)
            del left[0]
            held.attempts = 0
            if not self._workers and self.consumer.has_news():
                with self.consumer.lock:
                    self._hold(held, left, -1)
                    self.consumer.keep_up()
                    self._hold(held, left, 1)
        self._hold(held, left, -1)

    def _call(self, message: MessageView) -> bool:
        try:
            return self.callback(message) is not False
        except Exception:  # noqa: BLE001 - whatever it is, the message was not consumed
            self._log.exception("the callback failed for %r", message)
            return False

    def _suspend(self, held: AssignedQueue, message: MessageView, left: list[MessageView]) -> bool:
        """The queue waits; True if the message had its last try and went to the dead letters."""
        held.attempts += 1
        if held.attempts > self.consumer.max_reconsume_times:
            self._send_back(message, -1)
            return True
        held.again = left[:]
        held.resume_at = time.monotonic() + self.suspend_s
        return False

    def _send_back(self, message: MessageView, delay_level: int) -> None:
        """Until the store has taken it: else it would come again only to who has the queue next."""
        while not self._stopping:
            try:
                self.consumer.nack(message, delay_level=delay_level)
            except StoreClosed:
                raise
            except StoreError as error:
                self._log.warning("cannot send a message back, trying again: %s", error)
                time.sleep(_RETRY_S)
            else:
                return
