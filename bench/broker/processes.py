"""CPU time and memory of the processes of a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN = re.compile(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", re.MULTILINE)


def tree(pids: Iterable[int]) -> list[psutil.Process]:
    """These processes and all that descend from them."""
    found = []
    for pid in pids:
        process = psutil.Process(pid)
        found += [process, *process.children(recursive=True)]
    return found


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """User and system time that they have used so far."""
    total = 0.0
    for process in processes:
        used = process.cpu_times()
        total += used.user + used.system
    return total


def own_bytes(processes: Iterable[psutil.Process]) -> int:
    """Their memory without mapped files; what several of them share counts once."""
    return sum(
        parse_own(Path(f"/proc/{process.pid}/smaps_rollup").read_text()) for process in processes
    )


def parse_own(smaps_rollup: str) -> int:
    """Bytes of anonymous and of shared memory in the kernel's account. Raises ValueError."""
    found = _OWN.findall(smaps_rollup)
    if len(found) != 2:
        raise ValueError("no Pss_Anon and Pss_Shmem in smaps_rollup: it needs Linux 5.4")
    return sum(map(int, found)) * 1024
