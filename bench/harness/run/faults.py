"""What is done to the server and the consumers during a run, and undone."""

from __future__ import annotations

import contextlib
import heapq
import os
import shutil
import signal
from typing import TYPE_CHECKING

from ..results.model import Fault as Done
from ..workload.load import BadWorkload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..workload.workload import Fault

#: A disk with more free space is not filled: it may be one that others need.
MOST_FREE = 4 << 30
_KEPT = 1 << 20


class Faults:
    """The faults of a run, by time since its start. `pids` names the server's processes;
    `consumers` are the pids of the consumers.
    """

    def __init__(
        self,
        wanted: Sequence[Fault],
        warm_up: int,
        duration: int,
        *,
        folder: Path,
        pids: Callable[[], dict[str, int]],
        consumers: Sequence[int],
    ) -> None:
        self._folder, self._pids, self._consumers = folder, pids, consumers
        self._due = [
            (warm_up + at, number, fault)
            for number, fault in enumerate(wanted)
            for at in fault.times(duration)
        ]
        heapq.heapify(self._due)
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._turn = 0
        self.done: list[Done] = []

    def look(self, now_s: float) -> None:
        """Does what is due at a time since the start. Raises BadWorkload for a process that the
        server does not have.
        """
        while self._ends and self._ends[0][0] <= now_s:
            heapq.heappop(self._ends)[2]()
        while self._due and self._due[0][0] <= now_s:
            _, _, fault = heapq.heappop(self._due)
            self._do(fault, now_s)

    def _do(self, fault: Fault, now_s: float) -> None:
        until = now_s + fault.lasts
        match fault.kind:
            case "kill":
                name, pid = self._process(fault.what)
                _signal(pid, signal.SIGKILL)
                what, until = f"kill {name}", now_s
            case "stop":
                name, pid = self._process(fault.what)
                what = f"stop {name}"
                self._stop([pid], until)
            case "pause-consumers":
                what = "pause the consumers"
                self._stop(self._consumers, until)
            case _:
                what = "fill the disk"
                self._fill(until)
        self.done.append(Done(round(now_s, 3), round(until, 3), what))

    def _process(self, what: str) -> tuple[str, int]:
        pids = self._pids()
        if what == "each":
            # The supervisor is the store as a whole.
            names = sorted(name for name in pids if name != "supervisor") or sorted(pids)
            what = names[self._turn % len(names)]
            self._turn += 1
        if what not in pids:
            raise BadWorkload(f"faults.what: no process {what}: one of {', '.join(pids)}")
        return what, pids[what]

    def _stop(self, pids: Sequence[int], until: float) -> None:
        for pid in pids:
            _signal(pid, signal.SIGSTOP)

        def go_on() -> None:
            for pid in pids:
                _signal(pid, signal.SIGCONT)

        self._at(until, go_on)

    def _fill(self, until: float) -> None:
        path = self._folder / "fills-the-disk"
        fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            with contextlib.suppress(OSError):  # somebody else has taken the last space
                os.posix_fallocate(fd, 0, max(1, shutil.disk_usage(self._folder).free - _KEPT))
        finally:
            os.close(fd)
        self._at(until, path.unlink)

    def _at(self, time_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._ends, (time_s, len(self.done), what))

    def close(self) -> None:
        """Undoes what lasts."""
        while self._ends:
            heapq.heappop(self._ends)[2]()


def check_disk(wanted: Sequence[Fault], folder: Path) -> None:
    """Raises BadWorkload if a disk would be filled that is not the workload's own."""
    if any(fault.kind == "fill-disk" for fault in wanted):
        free = shutil.disk_usage(folder).free
        if free > MOST_FREE:
            raise BadWorkload(
                f"faults: fill-disk would take {free / 2**30:.0f} GiB of {folder}: give a file "
                f"system with {MOST_FREE / 2**30:.0f} GiB free at most by --folder"
            )


def _signal(pid: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.kill(pid, which)
