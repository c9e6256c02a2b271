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
from typing import TYPE_CHECKING

from ._loops import Loop
from .account import SECOND
from .protocol import STAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .account import Account
    from .bodies import Messages, Ready
    from .client import Sender
    from .numbers import Numbers
    from .protocol import Order

    OneCall = Callable[[str, bytes, str, str], None]

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


class Fates:
    """What became of messages under way: see `client.Acknowledged`."""

    def __init__(self) -> None:
        self.account: Account | None = None
        self.numbers: Numbers | None = None
        self.under_way = 0
        self.numbered: dict[int, int] = {}

    def __call__(self, due: int, error: str = "") -> None:
        assert self.account is not None
        self.under_way -= 1
        number = self.numbered.pop(due, None)
        if error:
            self.account.failed(error)
            return
        self.account.publish.append(time.monotonic_ns() - due)
        if number is not None and self.numbers is not None:
            self.numbers.note(number)

    def durable(self, dues: bytes) -> None:
        import numpy as np

        assert self.account is not None
        since = time.monotonic_ns() - np.frombuffer(dues, np.int64)
        self.account.durable.frombytes(since.tobytes())


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
        ready = islice(cycle(messages.ready), most)
        loop = Loop(
            messages.ready,
            most,
            self._end,
            account.look,
            account.failed,
            account.publish,
            account.delay,
        )
        if order.call == "async":
            (self._open_window if order.rate else self._closed_window)(ready)
            self._await_answers()
        elif order.call != "batch":
            call = self._numbered(sender.oneway if order.call == "oneway" else sender.send)
            if order.rate:
                schedule = self._schedule
                loop.at_their_times(
                    call,
                    schedule.first,
                    schedule.period,
                    schedule.anew,
                    self._spin_ns,
                    self._least_ns,
                )
            else:
                loop.one_by_one(call)
        elif order.rate or self._numbers is not None:
            self._batches(ready)
        else:
            loop.batches(sender.batch, order.batch)
        if order.call == "oneway":
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

    def _goes_on(self, now: int) -> bool:
        """Looks up from the work. False when it is over."""
        self._look_at = self._account.look(now)
        return self._look_at > 0

    def _wait_until(self, due: int) -> bool:
        """Waits until a message is due, and takes answers meanwhile. False when the harness ends
        it.
        """
        while True:
            now = time.monotonic_ns()
            if now >= self._look_at and not self._goes_on(now):
                return False
            left = due - now
            if left <= 0:
                return True
            if self._fates.under_way:
                self._take_answers(min(left / SECOND, _SLICE_S))
            elif left > self._spin_ns:
                left = max(left - self._spin_ns, self._least_ns)
                time.sleep(min(left / SECOND, _SLICE_S))

    def _closed_window(self, ready: Iterable[Ready]) -> None:
        clock = time.monotonic_ns
        for one in ready:
            now = clock()
            if now >= self._look_at and (now >= self._end or not self._goes_on(now)):
                break
            if not self._wait_for_room():
                break
            self._begin(one, clock())

    def _open_window(self, ready: Iterable[Ready]) -> None:
        for n, one in enumerate(ready):
            due = self._schedule.next(n, time.monotonic_ns())
            if due >= self._end or not self._wait_until(due) or not self._wait_for_room():
                break
            self._account.delay.append(max(0, time.monotonic_ns() - due))
            self._begin(one, due)

    def _wait_for_room(self) -> bool:
        """Waits until the window has room. False when the harness ends it."""
        while self._fates.under_way >= self._order.window:
            self._take_answers(_SLICE_S)
            now = time.monotonic_ns()
            if now >= self._look_at and not self._goes_on(now):
                return False
        return True

    def _begin(self, one: Ready, due: int) -> None:
        fates, numbers = self._fates, self._numbers
        body = due.to_bytes(STAMP, "big") + one.tail
        if numbers is not None:
            body, number = numbers.numbered(body)
            while due in fates.numbered:  # the same ns: a reader sees the earlier time
                due += 1
            fates.numbered[due] = number
        fates.under_way += 1
        try:
            self._sender.begin(one.topic, body, one.tag, one.key, due)
        except Exception as error:  # noqa: BLE001 - a client of any kind
            fates.under_way -= 1
            fates.numbered.pop(due, None)
            self._account.failed(error)

    def _take_answers(self, timeout_s: float) -> None:
        try:
            self._sender.wait(timeout_s)
        except Exception as error:  # noqa: BLE001 - a client of any kind
            self._account.failed(error)
            time.sleep(timeout_s)  # a client that fails at once must not fail without end

    def _await_answers(self) -> None:
        deadline = time.monotonic_ns() + int(_END_S * SECOND)
        while self._fates.under_way and (now := time.monotonic_ns()) < deadline:
            self._take_answers(_SLICE_S)
            if now >= self._look_at:
                self._goes_on(now)
        for _ in range(self._fates.under_way):
            self._account.failed(f"no answer within {_END_S:.0f} s")

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
                account.delay.extend(max(0, now - due) for due in dues)
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
            self._sender.batch(first.topic, bodies, first.tag, first.key)
        except Exception as error:  # noqa: BLE001 - a client of any kind
            for _ in batch:
                self._account.failed(error)
            return
        now = time.monotonic_ns()
        self._account.publish.extend(now - due for due in dues)
        if self._numbers is not None:
            for number in given:
                self._numbers.note(number)
