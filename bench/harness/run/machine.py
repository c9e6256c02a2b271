"""Where it is measured."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from ..results.model import Machine

_SYS = Path("/sys")


def _text(path: Path, default: str = "") -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return default


def _cpu() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def _file_system(folder: Path) -> tuple[str, str]:
    """(type and options, device) of the mount that a folder is on."""
    here = str(folder.resolve())
    found = ("", "", "")
    for line in _text(Path("/proc/self/mounts")).splitlines():
        device, point, kind, options = line.split(" ")[:4]
        inside = here == point or here.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found[0]):
            shown = [one for one in options.split(",") if "=" not in one]
            found = (point, f"{kind} ({','.join(shown)})", device.rpartition("/")[2])
    return found[1], found[2]


def machine(folder: Path) -> Machine:
    """This machine, as it is before the start. Servers will lie in `folder`. No host name."""
    kind, device = _file_system(folder)
    notes = {"load": " ".join(f"{one:.2f}" for one in os.getloadavg())}
    governor = _text(_SYS / "devices/system/cpu/cpu0/cpufreq/scaling_governor")
    clock = _text(_SYS / "devices/system/clocksource/clocksource0/current_clocksource")
    known = {
        "governor": governor,
        "cgroup cpu.max": _text(_SYS / "fs/cgroup/cpu.max"),
        "cgroup memory.max": _text(_SYS / "fs/cgroup/memory.max"),
    }
    notes |= {name: text for name, text in known.items() if text}
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory=int(psutil.virtual_memory().total),
        kernel=platform.release(),
        file_system=kind,
        disk=device,
        python=platform.python_version(),
        clock=clock,
        notes=notes,
    )
