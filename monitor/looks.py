"""`Looks`: what `silo top` shows of a store, look by look."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any, Final, Self

import psutil

from ..client.admin.admin import Admin
from ..client.admin.figures import lag, rate
from ..shm.control import ACTORS, ActorState, StoreState
from ..store.errors import IllegalMessage, StoreError

#: What `Looks` raises for a store that is not there, or not of this version.
NOT_THERE: Final = (StoreError, OSError)
#: Rates are those of so many of the last seconds.
_WINDOW_S: Final = 5.0
_RATES: Final = (
    ("put_messages", "records"),
    ("put_bytes", "put_bytes"),
    ("put_refused", "rejected"),
    ("dispatched_entries", "dispatch_count"),
    ("syncs", "flushes"),
    ("get_messages", "get_messages"),
    ("get_found", "get_found"),
    ("get_missed", "get_missed"),
)
_POSITIONS: Final = ("min_offset", "dispatched", "flushed", "committed", "wrote", "ready")
_HOUR_S: Final = 3600.0


class Looks:
    """Looks at the running store in folder `store`. Use it in a `with` block. Raises as `Admin`."""

    def __init__(self, store: str, most_groups: int) -> None:
        self._admin = Admin(store)
        self._store = store
        self._most_groups = most_groups
        self._processes: dict[int, psutil.Process] = {}

    def close(self) -> None:
        """Ends the session. May be called again."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self) -> dict[str, Any]:
        """What there is now, for JSON. CPU times are those since the look before."""
        admin = self._admin
        control, figures = admin.control, admin.figures
        now, rows = figures.now(), figures.history.rows()
        recent = [r for r in rows if now.clock_ns - r.clock_ns <= (_WINDOW_S + 0.5) * 1e9]
        steps = {name: lag(rows, now, getattr(now, name)) for name in ("flushed", "dispatched")}
        busy = [row for row in recent if row.put_p99_ns]
        last = busy[-1] if busy else None
        syncs = [row.sync_p99_ns for row in recent if row.sync_p99_ns]
        return {
            "store": self._store,
            "state": StoreState(control.load("state")).name,
            "time_ms": now.time_ms,
            "started_ms": control.load("started_ms"),
            "rates": {name: round(rate(rows, now, f, _WINDOW_S), 1) for name, f in _RATES},
            "latencies_ms": {
                "put_50": last.put_p50_ns / 1e6 if last else None,
                "put_99": last.put_p99_ns / 1e6 if last else None,
                "sync_99": max(syncs) / 1e6 if syncs else None,
            },
            "positions": {name: control.load(name) for name in _POSITIONS},
            "behind": {
                step: {
                    "bytes": steps[word].bytes,
                    "messages": steps[word].messages,
                    "seconds": round(steps[word].seconds, 1),
                }
                for step, word in (("flush", "flushed"), ("dispatch", "dispatched"))
            },
            "counts": {
                "sessions": control.load("sessions"),
                "rings": figures.metrics.load("rings"),
                "topics": control.load("topics"),
                "delayed_waiting": now.delayed_waiting,
                "open_transactions": now.trans_open,
            },
            "processes": [self._process(name, number) for number, name in enumerate(ACTORS)],
            **self._groups(),
            "disk": self._disk(rate(rows, now, "wrote", _HOUR_S)),
        }

    def _process(self, name: str, number: int) -> dict[str, Any]:
        pid, starts, _, state = self._admin.control.process(number)
        found = {
            "process": name,
            "pid": pid,
            "starts": starts,
            "state": ActorState(state).name,
            "cpu_percent": None,
            "memory_bytes": None,
        }
        if pid:
            with contextlib.suppress(psutil.Error):
                about = self._processes.setdefault(pid, psutil.Process(pid))
                found["cpu_percent"] = about.cpu_percent()
                found["memory_bytes"] = about.memory_info().rss
        return found

    def _groups(self) -> dict[str, Any]:
        """The groups with the largest lags, and how many there are."""
        groups: list[dict[str, Any]] = []
        for info in self._admin.groups():
            with contextlib.suppress(IllegalMessage):  # it was deleted meanwhile
                state = self._admin.group(info.name)
                about = {"group": info.name, "members": info.members, "lag": state.lag}
                groups.append({**about, "leased": state.leased})
        groups.sort(key=lambda group: (-group["lag"], group["group"]))
        return {"group_count": len(groups), "groups": groups[: self._most_groups]}

    def _disk(self, bytes_a_second: float) -> dict[str, Any]:
        """The commit log's disk. `full_in_s` is None while the log does not grow; files that clean
        would remove meanwhile are not considered.
        """
        used = shutil.disk_usage(os.path.join(self._store, "commitlog"))
        return {
            "free_bytes": used.free,
            "total_bytes": used.total,
            "log_bytes_a_second": round(bytes_a_second, 1),
            "full_in_s": round(used.free / bytes_a_second) if bytes_a_second >= 1 else None,
        }


def settled(looks: Looks, seconds: float) -> dict[str, Any]:
    """One look that has CPU times: they are measured for so many seconds."""
    looks.look()
    time.sleep(seconds)
    return looks.look()
