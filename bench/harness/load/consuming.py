"""The loop of a consumer. It reads until the end, and then until the harness ends it, because the
last messages may come late.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .account import SECOND
from .columns import Columns
from .protocol import STAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .account import Account
    from .client import Bytes, Reader
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
        self._order, self._reader, self._numbers, self._account = order, reader, numbers, account
        work_s = order.warm_up_s + order.duration_s + _PATIENCE_S
        self._start, self._end = start, start + int(work_s * SECOND)
        self._read = 0
        self._last = start

    def run(self) -> None:
        """Reads until it is ended."""
        if self._order.call in ("listen", "iterate"):
            self._listen()
        else:
            self._poll()

    def _poll(self) -> None:
        account, clock = self._account, time.monotonic_ns
        append = account.end_to_end.append
        look_at, now = 0, clock()
        while not self._is_over(now):
            if now >= look_at and not (look_at := account.look(now)):
                break
            try:
                found = self._reader.read(_WAIT_S)
            except Exception as error:  # noqa: BLE001 - a client of any kind
                account.failed(error)
                time.sleep(_REST_S)
                now = clock()
                continue
            now = clock()
            if isinstance(found, Columns):
                self._take_columns(found, now)
                continue
            if not found:
                continue
            self._last = now
            size = sum(map(len, found))
            if not self._order.is_backlog:
                for body in found:
                    append(now - int.from_bytes(body[:STAMP], "big"))
            account.messages += len(found)
            account.bytes += size
            self._note(found)

    @property
    def read_s(self) -> float:
        """From the start until the last message was read, s."""
        return (self._last - self._start) / SECOND

    def _take_columns(self, found: Columns, now: int) -> None:
        if not len(found):
            return
        self._last = now
        if not self._order.is_backlog:
            self._account.end_to_end.frombytes(found.since(now))
        self._account.messages += len(found)
        self._account.bytes += found.size
        if self._numbers is None:
            self._read += len(found)
        else:
            self._note(found.bodies())

    def _note(self, found: Sequence[Bytes]) -> None:
        self._read += len(found)
        if self._numbers is not None:
            for body in found:
                self._numbers.read(body)

    def _is_over(self, now: int) -> bool:
        drained = self._order.drain and self._read >= self._order.drain
        return bool(drained) or now >= self._end

    def _listen(self) -> None:
        account, clock = self._account, time.monotonic_ns
        append = account.end_to_end.append
        is_backlog = self._order.is_backlog

        def take(body: Bytes) -> None:
            self._last = now = clock()
            if not is_backlog:
                append(now - int.from_bytes(body[:STAMP], "big"))
            account.messages += 1
            account.bytes += len(body)
            self._note((body,))

        self._reader.listen(take)
        now = clock()
        while not self._is_over(now) and account.look(now):
            time.sleep(_WAIT_S)
            now = clock()
