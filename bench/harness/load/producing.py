"""The loops of a producer: closed or open, one call for a message, a window, or batches.

`_loops.pyx` has those whose own time would count. In a closed loop a message is due when the loop
comes to it. In an open loop message number n is due at its time of the schedule, whatever happened
to those before it. The loop catches up as fast as it can, and no message is left out. Only at the
end of the warm-up it leaves out those that are late: programs that have just begun are slow, and
what they left would be in the first seconds' latencies.
"""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from typing import TYPE_CHECKING, cast

from ._loops import Loop, Times
from .account import SECOND
from .protocol import STAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._fates import Fates
    from .account import Account
    from .bodies import Messages, Ready
    from .client import OneWayBatches, Sender
    from .protocol import Order

    OneCall = Callable[[str, bytes, str, str], None]
    BatchCall = Callable[[str, list[bytes], str, str], None]

_END_S = 30.0
_SLICE_S = 0.02
#: One worker that has a core spins for so long before a message is due: the kernel wakes later.
_SPIN_NS = 20_000
#: With a worker on each core the server would have to wait for those who spin, and each sleep takes
#: some microseconds from it. So they sleep for so long at least, and send what has become due.
_LEAST_NS = 100_000
#: More messages than any run has.
_NO_END = 1 << 62


class Schedule:
    """When message number n of a worker is due. Each worker has `rate`; together they are evenly
    spread. Times are ns of CLOCK_MONOTONIC.
    """

    def __init__(
        self, start: int, rate: float, index: int, workers: int, warm_up_ends: int = 0
    ) -> None:
        self.period = SECOND / rate if rate else 0.0
        self.first = start + self.period * index / workers
        #: From this time on nothing more is left out; 0 when it has passed.
        self.anew = warm_up_ends

    def due(self, n: int) -> int:
        """The time of message `n`."""
        return round(self.first + n * self.period)

    def next(self, n: int, now: int) -> int:
        """`due` for the message that is sent next, at `now` or later."""
        if self.anew and now >= self.anew:
            while self.due(n) < self.anew:
                self.first += self.period
            self.anew = 0
        return self.due(n)


class Producing:
    """A producer's work from `start` to `end`, ns of CLOCK_MONOTONIC."""

    def __init__(
        self, order: Order, sender: Sender, fates: Fates, account: Account, start: int
    ) -> None:
        self._order, self._sender, self._fates, self._account = order, sender, fates, account
        self._end = start + int((order.warm_up_s + order.duration_s) * SECOND)
        warm_up_ends = start + int(order.warm_up_s * SECOND)
        self._schedule = Schedule(start, order.rate, order.index, order.workers, warm_up_ends)
        self._numbers = fates.numbers
        self._look_at = 0
        alone = order.workers < (os.cpu_count() or 1)
        self._spin_ns, self._least_ns = (_SPIN_NS, 0) if alone else (0, _LEAST_NS)

    def run(self, messages: Messages) -> None:
        """Sends until the end, or until the harness ends it."""
        order, sender, account = self._order, self._sender, self._account
        most = order.messages or _NO_END
        loop = Loop(
            messages.ready,
            most,
            self._end,
            account.look,
            account.failed,
            account.publish,
            account.delay,
        )
        schedule = self._schedule
        times = Times(schedule.first, schedule.period, schedule.anew, self._spin_ns, self._least_ns)
        if order.call == "async":
            if order.rate:
                loop.window_at_their_times(sender, self._fates, order.window, times)
            else:
                loop.full_window(sender, self._fates, order.window)
            loop.await_answers(sender, self._fates, int(_END_S * SECOND))
        elif order.call in ("oneway", "send"):
            call = self._numbered(sender.oneway if order.call == "oneway" else sender.send)
            if order.rate:
                loop.at_their_times(call, times)
            else:
                loop.one_by_one(call)
        elif order.rate or self._numbers is not None:
            self._batches(islice(cycle(messages.ready), most))
        else:
            loop.batches(self._call_for_batches(), order.batch)
        if order.call in ("oneway", "batch-oneway"):
            try:
                self._sender.finish(_END_S)
            except Exception as error:  # noqa: BLE001 - a client of any kind
                self._account.failed(error)

    def _numbered(self, call: OneCall) -> OneCall:
        """`call` with numbers in the bodies, if messages are counted."""
        numbers = self._numbers
        if numbers is None:
            return call

        def send(topic: str, body: bytes, tag: str, key: str) -> None:
            body, number = numbers.numbered(body)
            call(topic, body, tag, key)
            numbers.note(number)

        return send

    def _call_for_batches(self) -> BatchCall:
        if self._order.call == "batch-oneway":
            return cast("OneWayBatches", self._sender).batch_oneway
        return self._sender.batch

    def _goes_on(self, now: int) -> bool:
        """Looks up from the work. False when it is over."""
        self._look_at = self._account.look(now)
        return self._look_at > 0

    def _wait_until(self, due: int) -> bool:
        """Waits until a message is due. False when the harness ends it."""
        while True:
            now = time.monotonic_ns()
            if now >= self._look_at and not self._goes_on(now):
                return False
            left = due - now
            if left <= 0:
                return True
            if left > self._spin_ns:
                left = max(left - self._spin_ns, self._least_ns)
                time.sleep(min(left / SECOND, _SLICE_S))

    def _batches(self, ready: Iterator[Ready]) -> None:
        clock, account, order = time.monotonic_ns, self._account, self._order
        n = 0
        while batch := list(islice(ready, order.batch)):
            now = clock()
            if now >= self._look_at:
                if now >= self._end or not self._goes_on(now):
                    break
                now = clock()  # the look is no message's latency
            dues = [now] * len(batch)
            if order.rate:
                self._schedule.next(n, now)
                dues = [self._schedule.due(n + i) for i in range(len(batch))]
                if dues[-1] >= self._end or not self._wait_until(dues[-1]):
                    break
                now = clock()
                for due in dues:
                    account.delay.record(max(0, now - due))
            n += len(batch)
            self._send_batch(batch, dues)

    def _send_batch(self, batch: list[Ready], dues: list[int]) -> None:
        bodies = [
            due.to_bytes(STAMP, "big") + one.tail for due, one in zip(dues, batch, strict=True)
        ]
        given = []
        if self._numbers is not None:
            pairs = [self._numbers.numbered(body) for body in bodies]
            bodies, given = [body for body, _ in pairs], [number for _, number in pairs]
        first = batch[0]
        try:
            self._call_for_batches()(first.topic, bodies, first.tag, first.key)
        except Exception as error:  # noqa: BLE001 - a client of any kind
            for _ in batch:
                self._account.failed(error)
            return
        now = time.monotonic_ns()
        for due in dues:
            self._account.publish.record(now - due)
        if self._numbers is not None:
            for number in given:
                self._numbers.note(number)
