"""`PopListener`: gives the messages of a member that pops to a callback, in threads.

One thread pops and tells the store what is done; `concurrency` threads call the callback. So what
is acknowledged is told in time also while all callbacks take long.

A message that waits for a thread is leased already, and its time runs. So few messages wait while
callbacks take long, and more when they are done within a pop's time. One that has waited for half
of its time is given back: another member may have it, and the try does not count. (RocketMQ's
`ConsumeMessagePopConcurrentlyService` calls back with what is left of the time.)
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from ...store.errors import StoreError
from ..consuming.message_view import MessageView
from ..errors import NotHandedOut, StoreClosed
from .group_reader import TICK_S
from .listener import Listener
from .pop_reader import PopReader
from .popped_messages import ACKNOWLEDGED, UNSEEN, Popped

#: Acknowledgements wait so long for others (s).
_ACK_S: Final = 0.1
#: More is popped ahead when what was popped before lasted shorter (s), and less when it lasted
#: longer than the second.
_SHORT_S, _LONG_S = 0.05, 0.5


class PopListener(Listener):
    """Listens to what a member pops."""

    def __init__(
        self,
        reader: PopReader,
        callback: Callable[[MessageView], object],
        concurrency: int,
        delay_level: int,
        most: tuple[int, int],
    ) -> None:
        """`most` messages wait for a callback or are in one, and `most` bytes of them."""
        super().__init__(reader, callback)
        self._pops = reader
        self._concurrency = concurrency
        self._delay_level = delay_level
        self._max_pending, self._max_pending_bytes = most
        self._wanted, self._popped_at = min(concurrency, most[0]), 0.0
        self._pending = self._pending_bytes = 0
        self._count = threading.Condition()
        self._tasks: queue.SimpleQueue[Popped | None] = queue.SimpleQueue()
        self._start(concurrency)

    def _end(self) -> None:
        with self._count:
            self._stopping = True
            self._count.notify_all()

    # -- popping

    def _run(self) -> None:
        try:
            self._take_turns()
        finally:
            self._stopping = True
            for _ in self._workers:
                self._tasks.put(None)
            for worker in self._workers:
                worker.join()
            self._say_rest()
            if self._closing:
                self._pops.close()

    def _say_rest(self) -> None:
        """Tells the store what callbacks have done last, and gives back what none has seen."""
        try:
            with self._pops.lock:
                self._pops.say()
        except (StoreError, OSError) as error:
            self._log.warning("messages that were consumed come again: %s", error)

    def _turn(self) -> None:
        """Pops for the threads when they have little left, and tells what is done."""
        pops = self._pops
        with pops.lock:
            if pops.settlings and time.monotonic() - pops.settlings.since >= _ACK_S:
                pops.say()
        # A callback settles its message before it counts as done.
        pause_s = _ACK_S if self._pending or pops.settlings else TICK_S
        with self._count:
            if not self._count.wait_for(self._may_pop, pause_s) or self._stopping:
                return
            self._adapt()
            room = max(1, self._wanted - self._pending)
            left = self._max_pending_bytes - self._pending_bytes
        found = pops.pop_parts(room, pause_s, left)
        for one in (one for part in found for one in part.singles()):
            self._add_work(one, 1)
            self._tasks.put(one)
        if found:
            self._popped_at = time.monotonic()

    def _may_pop(self) -> bool:
        """Whether a thread has nothing to do, or soon will; also at the end. With `_count`."""
        if self._stopping:
            return True
        if self._pending >= self._max_pending or self._pending_bytes >= self._max_pending_bytes:
            return False
        return self._pending < self._concurrency or self._pending <= self._wanted // 2

    def _adapt(self) -> None:
        """Sets how many messages are popped ahead, by how long those of the last pop lasted."""
        lasted_s = time.monotonic() - self._popped_at
        if lasted_s < _SHORT_S:
            self._wanted = min(2 * self._wanted, self._max_pending)
        elif lasted_s > _LONG_S and self._pending:
            self._wanted = min(max(self._concurrency, self._wanted // 2), self._max_pending)

    def _add_work(self, one: Popped, sign: int) -> None:
        """Counts a message that waits for a callback or is in one (sign 1), or no longer (-1)."""
        with self._count:
            self._pending += sign
            self._pending_bytes += sign * one.message.size
            if sign < 0 and self._may_pop():
                self._count.notify()

    # -- consuming

    def _work(self) -> None:
        """Calls back for messages, in a thread of its own, until the listener ends."""
        while (one := self._tasks.get()) is not None:
            try:
                self._consume(one)
            except Exception as error:  # noqa: BLE001 - `wait` raises it, whatever it is
                self._fail(error)
                self._end()
            self._add_work(one, -1)

    def _consume(self, one: Popped) -> None:
        """Calls the callback for a message, unless another member had better have it."""
        pops, begun = self._pops, time.monotonic()
        with pops.lock:
            if self._stopping or one.half < begun:
                pops.settlings.add(one.lease, one.bit, UNSEEN)
                return
            pops.out.add(one)
        consumed = self._call(one.message)
        if time.monotonic() > one.end:
            self._log.warning(
                "the callback took %.1f s for %r, longer than its invisible time: another member "
                "may have it too", time.monotonic() - begun, one.message,
            )  # fmt: skip
        if not consumed:
            self._send_back(one.message)
            return
        with pops.lock:
            pops.settle(one.message, ACKNOWLEDGED)
            if self._tasks.empty() or time.monotonic() - pops.settlings.since >= _ACK_S:
                pops.say()

    def _send_back(self, message: MessageView) -> None:
        """Has a message come again after its delay. If the store does not accept that, it comes
        again when its time is over.
        """
        try:
            self._pops.nack(message, self._delay_level)
        except NotHandedOut:
            pass  # the callback has settled it, or its time is over
        except StoreClosed:
            raise
        except StoreError as error:
            self._log.warning("a message comes again when its time is over: %s", error)
