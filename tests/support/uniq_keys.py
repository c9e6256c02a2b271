"""RocketMQ's way to make and read UNIQ_KEYs, in plain Python; the package's is in its kernel."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from typing import TYPE_CHECKING, Final

from silomq.store.record.ids import LAYOUT, local_address, month_bounds_ms

if TYPE_CHECKING:
    from collections.abc import Callable

UNIQ_KEY_BYTES: Final = sum(LAYOUT["counter"])
COUNTER_RANGE: Final = 65_536
_KEY: Final = struct.Struct(">4sHIIH")
assert _KEY.size == UNIQ_KEY_BYTES


class UniqKeys:
    """Makes UNIQ_KEYs; safe between threads and across forks.

    No key is made twice, whatever the clock does:

    - *One process.* The time of a key never steps back, and after 65,536 keys of one millisecond it
      steps forward, ahead of the clock if need be: two keys with the same counter differ in time.
      `timeDiff` starts over each month (Java's generator can repeat itself there); with each new
      month the incarnation is counted up, so keys of different months differ in it.
    - *Processes of one machine.* They differ in the low half of the process id, or, where that
      repeats, in the incarnation: 32 random bits, drawn at the start and again after a fork.
    - *Machines* differ in the address. Where it is private and repeats, pid and incarnation must
      differ: two processes with the same address and pid collide with probability 2**-32, and then
      only with keys of the same millisecond and counter.
    """

    def __init__(
        self, address: bytes | None = None, clock_ms: Callable[[], int] | None = None
    ) -> None:
        self._address = local_address() if address is None else address
        if len(self._address) != 4:
            raise ValueError(f"a unique key holds an IPv4 address, not {self._address.hex()}")
        self._clock_ms = clock_ms or (lambda: time.time_ns() // 1_000_000)
        self._lock = threading.Lock()
        self._ms = self._counter = 0
        self._left = self._pid = self._incarnation = self._month = self._next_month = 0
        self._start_incarnation()

    def next(self) -> str:
        """A new key: 32 upper-case hex digits."""
        now = self._clock_ms()
        pid = os.getpid()
        if pid != self._pid:
            # A fork: this is the child's only thread, and a thread that is gone may have held the
            # lock.
            self._lock = threading.Lock()
            self._start_incarnation()
        with self._lock:
            if now > self._ms:
                self._ms, self._left = now, COUNTER_RANGE
            elif self._left == 0:
                self._ms, self._left = self._ms + 1, COUNTER_RANGE
            if self._ms >= self._next_month:
                self._month, self._next_month = month_bounds_ms(self._ms)
                self._incarnation = (self._incarnation + 1) & 0xFFFF_FFFF
            self._left -= 1
            self._counter = (self._counter + 1) % COUNTER_RANGE
            raw = _KEY.pack(
                self._address,
                pid & 0xFFFF,
                self._incarnation,
                (self._ms - self._month) & 0xFFFF_FFFF,
                self._counter,
            )
        return raw.hex().upper()

    def _start_incarnation(self) -> None:
        self._pid = os.getpid()
        self._incarnation = int.from_bytes(os.urandom(4), "big")
        self._left = COUNTER_RANGE
        self._month = self._next_month = 0


def uniq_key_time_ms(key: str, now_ms: int | None = None) -> int:
    """When `key` was made, in epoch milliseconds (RocketMQ: `getNearlyTimeFromID`).

    A key only tells the time within a month of local time. This month is taken, or the last one if
    the result would lie in the future of `now_ms`. Raises ValueError if `key` is not 32 hex digits.
    """
    if len(key) != 2 * UNIQ_KEY_BYTES or not re.fullmatch(r"[0-9A-Fa-f]+", key):
        raise ValueError(f"a unique key is 32 hex digits, not {key[:80]!a}")
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    span: int = _KEY.unpack(bytes.fromhex(key))[3]
    month, _ = month_bounds_ms(now_ms)
    if month + span > now_ms:
        month, _ = month_bounds_ms(month - 1)
    return month + span
