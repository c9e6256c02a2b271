"""What the machine and the server's processes use, once a second."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """`pids` names the server's processes: a killed one has a successor of the same name."""

    def __init__(self, pids: Callable[[], dict[str, int]]) -> None:
        self._pids = pids
        self._processes: dict[str, psutil.Process] = {}
        self._used: dict[str, float] = {}
        self._written: int | None = None
        #: CPU time of all the server's processes since the first sample, s.
        self.cpu_s = 0.0
        self.sample(0.0)

    def sample(self, elapsed_s: float) -> dict[str, float | None]:
        """The columns of a second that took `elapsed_s`. Raises what `pids` raises."""
        row: dict[str, float | None] = {}
        for name, pid in self._pids().items():
            try:
                self._process(name, pid, elapsed_s, row)
            except (psutil.Error, OSError):  # it has just ended: its successor is there next time
                self._used.pop(name, None)
            os.sched_yield()  # what is measured must not wait for all of this, some 2 ms
        memory = psutil.virtual_memory()
        row["page_cache"] = float(memory.cached)
        row["shared_memory"] = float(memory.shared)
        disks = psutil.disk_io_counters()
        written = None if disks is None else int(disks.write_bytes)
        if written is not None and self._written is not None and elapsed_s:
            row["disk_written"] = round((written - self._written) / elapsed_s, 1)
        self._written = written
        return row

    def _process(self, name: str, pid: int, elapsed_s: float, row: dict[str, float | None]) -> None:
        known = self._processes.get(name)
        if known is None or known.pid != pid:
            known = self._processes[name] = psutil.Process(pid)
            is_first = elapsed_s == 0
            self._used[name] = self._cpu(known) if is_first else 0.0
        used = self._cpu(known)
        spent = max(0.0, used - self._used.get(name, used))
        self._used[name] = used
        self.cpu_s += spent
        if elapsed_s:
            row[f"cpu.{name}"] = round(spent / elapsed_s, 4)
        row[f"memory.{name}"] = own_bytes(pid)
        row[f"files.{name}"] = float(known.num_fds())

    @staticmethod
    def _cpu(process: psutil.Process) -> float:
        used = process.cpu_times()
        return float(used.user + used.system)


def own_bytes(pid: int) -> float | None:
    """A process's anonymous memory; None if the kernel does not say. Cheaper than `smaps_rollup`,
    which walks all pages and would stop the process.
    """
    with contextlib.suppress(OSError):
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
        return float((int(resident) - int(shared)) * _PAGE)
    return None


class Samples:
    """Rows of samples as columns: a column that begins late has None before."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float | None]] = []

    def columns(self, length: int) -> dict[str, list[float | None]]:
        """The columns, each of `length` rows."""
        names: Iterable[str] = dict.fromkeys(name for row in self.rows for name in row)
        rows = [*self.rows[:length], *({} for _ in range(length - len(self.rows)))]
        return {name: [row.get(name) for row in rows] for name in names}
