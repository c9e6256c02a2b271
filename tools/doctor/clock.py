"""The clock: whether something sets it, and whether it went back since the store wrote last."""

from __future__ import annotations

import contextlib
import ctypes
import time
from typing import TYPE_CHECKING, Final

from ...store.disk.paths import OURS
from ...store.recovery import durable_progress
from .findings import ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...store.disk.files import Folder
    from .findings import Finding
    from .stores import StoreHere

#: Timestamps of records may be so far ahead (ms): within a batch they never fall.
_AHEAD_MS: Final = 1000
#: adjtimex: the state of a clock that nothing sets, and the size of its struct at most.
_TIME_ERROR: Final = 5
_TIMEX: Final = 256


def check(root: Folder | None, mine: StoreHere) -> Iterator[Finding]:
    """The clock, beside what the store in folder `root` has recorded."""
    newest = _newest_ms(root, mine)
    now = int(time.time() * 1000)
    if newest > now + _AHEAD_MS:
        yield warning(
            "clock",
            f"it went back: the store's newest message is {(newest - now) / 1000:,.1f} s ahead",
            "set the clock right (NTP); meanwhile new messages get that newest time",
        )
    elif newest:
        yield ok("clock", "not behind the newest message of the store")
    else:
        yield ok("clock", "the store has recorded no time yet")
    yield _synchronised()


def _newest_ms(root: Folder | None, mine: StoreHere) -> int:
    """The newest store timestamp that is known without reading the log; 0 for none."""
    if mine.control is not None:
        return mine.control.load("store_time_ms")
    if root is not None:
        with contextlib.suppress(OSError), root.folder(OURS) as ours:
            found = durable_progress.read(ours)
            return found.store_time_ms if found else 0
    return 0


def _synchronised() -> Finding:
    """Asks the kernel, which the NTP daemon tells. Nothing is set: `modes` is 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX))
    if state < 0:
        advice = "look at it outside the container (timedatectl)"
        return warning("clock, NTP", "the kernel does not tell whether it is synchronised", advice)
    if state == _TIME_ERROR:
        advice = "run an NTP client (chrony, systemd-timesyncd)"
        return warning("clock, NTP", "the kernel calls it not synchronised", advice)
    return ok("clock, NTP", "synchronised")
