"""The pauses of the machine itself: times in which no process could run on any core, or on one.

A virtual machine stands still while its host runs others. All messages that were due meanwhile are
late, whatever the store does. A core can stand still alone, and with it the process that it ran.
So each second of a result has the longest pause of all cores, and the longest of one core.

One thread on each core sleeps 1 ms at a time with the highest priority, and looks how late it wakes
(as jHiccup does). A kernel that is busy on one core for long is no pause: the threads of the other
cores have looked. So a core that is late alone counts only as far as the kernel says that the host
took the time (steal), which it tells in steps of 10 ms. Some kernels never tell it. A pause of all
cores is one of each, whatever the kernel says. The priority needs root or CAP_SYS_NICE.
Without it a busy machine would look like one that stands still, so nothing is measured.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ._pauses import longest, most_late, watch

#: The first cores are watched. A pause of the machine stops all; that of a core beyond is not seen.
_MOST_CORES = 8
_PRIORITY = 50
_LINE = 64
_NS_PER_US = 1000
_NS_PER_S = 10**9
_PATIENCE_S = 10.0
_STEAL = slice(8, 9)  # which word of a core's line in /proc/stat


class Pauses:
    """Measures from its making until it is closed."""

    def __init__(self) -> None:
        self._cores = cores = sorted(os.sched_getaffinity(0))[:_MOST_CORES]
        self._stolen_ns = self._read_stolen()
        self._memory = bytearray(_LINE * len(cores))
        self._end = bytearray(1)
        self._refused = threading.Event()
        self._begun = threading.Barrier(len(cores) + 1)
        self._threads = [
            threading.Thread(target=self._work, args=(place, core), daemon=True)
            for place, core in enumerate(cores)
        ]
        for thread in self._threads:
            thread.start()
        self._begun.wait(_PATIENCE_S)

    def close(self) -> None:
        """Ends the threads."""
        self._end[0] = 1
        for thread in self._threads:
            thread.join(_PATIENCE_S)

    def longest_us(self) -> tuple[float, float] | None:
        """The longest pauses since the last call: of all cores at once, and of one core, which is
        never the shorter one, us. None if the priority was refused.
        """
        if self._refused.is_set():
            return None
        before, self._stolen_ns = self._stolen_ns, self._read_stolen()
        stolen = [now - then for then, now in zip(before, self._stolen_ns, strict=True)]
        of_all = longest(self._memory)
        of_one = max(of_all, *map(min, most_late(self._memory), stolen))
        return round(of_all / _NS_PER_US, 1), round(of_one / _NS_PER_US, 1)

    def _read_stolen(self) -> list[int]:
        """The time that the host took from each watched core since the machine's start, ns. It is 0
        of a core of which the kernel tells nothing, as in a container that shows other cores.
        """
        lines = map(str.split, Path("/proc/stat").read_text().splitlines())
        ticks = {words[0]: sum(map(int, words[_STEAL])) for words in lines if words}
        tick_ns = _NS_PER_S // os.sysconf("SC_CLK_TCK")
        return [ticks.get(f"cpu{core}", 0) * tick_ns for core in self._cores]

    def _work(self, place: int, core: int) -> None:
        try:
            os.sched_setaffinity(0, [core])  # 0 is this thread
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        except OSError:
            self._refused.set()
        self._begun.wait(_PATIENCE_S)
        if not self._refused.is_set():
            watch(self._memory, place, self._end)
