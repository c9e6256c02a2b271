"""The loop of a consumer. It reads until the end, and then until the harness ends it, because the
last messages may come late.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ._arrivals import Arrivals
from .account import SECOND
from .columns import Columns

if TYPE_CHECKING:
    from .account import Account
    from .client import Reader
    from .numbers import Numbers
    from .protocol import Order

_WAIT_S = 0.02
_REST_S = 0.1
#: A harness that is no more does not end this worker: it ends by itself so long after the end.
_PATIENCE_S = 600.0


class Consuming:
    """A consumer's work from `start` on, ns of CLOCK_MONOTONIC."""

    def __init__(
        self, order: Order, reader: Reader, numbers: Numbers | None, account: Account, start: int
    ) -> None:
        self._order, self._reader, self._account = order, reader, account
        work_s = order.warm_up_s + order.duration_s + _PATIENCE_S
        self._start, self._end = start, start + int(work_s * SECOND)
        self._arrivals = Arrivals(
            None if order.is_backlog else account.end_to_end,
            None if numbers is None else numbers.read,
            start,
        )

    def run(self) -> None:
        """Reads until it is ended."""
        if self._order.call in ("listen", "iterate"):
            self._listen()
        else:
            self._poll()

    def _poll(self) -> None:
        account, arrivals, clock = self._account, self._arrivals, time.monotonic_ns
        look_at, now = 0, clock()
        while not self._is_over(now):
            if now >= look_at and not (look_at := self._look(now)):
                break
            try:
                found = self._reader.read(_WAIT_S)
            except Exception as error:  # noqa: BLE001 - a client of any kind
                account.failed(error)
                time.sleep(_REST_S)
                now = clock()
                continue
            now = clock()
            if not len(found):
                continue
            if isinstance(found, Columns):
                arrivals.columns(found, now)
            else:
                arrivals.some(found, now)
        self._tell()

    @property
    def read_s(self) -> float:
        """From the start until the last message was read, s."""
        return (self._arrivals.last - self._start) / SECOND

    def _look(self, now: int) -> int:
        """`Account.look`, which is told what has arrived."""
        self._tell()
        return self._account.look(now)

    def _tell(self) -> None:
        messages, size = self._arrivals.told()
        self._account.messages += messages
        self._account.bytes += size

    def _is_over(self, now: int) -> bool:
        drained = self._order.drain and self._arrivals.read >= self._order.drain
        return bool(drained) or now >= self._end

    def _listen(self) -> None:
        self._reader.listen(self._arrivals.one)
        now = time.monotonic_ns()
        while not self._is_over(now) and self._look(now):
            time.sleep(_WAIT_S)
            now = time.monotonic_ns()
        self._tell()
