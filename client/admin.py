"""`Admin`: looks at a running store, and makes topics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ..shm.control import ACTORS, ActorState, Control, StoreState
from ..store.cleaning import DiskFlag
from ..store.status import AckLevel
from .group_admin import GroupAdmin
from .session import Connection

_WORDS = (
    "wrote",
    "committed",
    "flushed",
    "dispatched",
    "min_offset",
    "ready",
    "files_removed",
    "cleaned_ms",
    "manual_runs",
    "records",
    "rejected",
    "dispatch_count",
    "flushes",
    "flush_error",
    "allocate_error",
    "locked_bytes",
    "sessions",
    "topics",
    "started_ms",
    "store_time_ms",
)


def _percent(word: int) -> int | None:
    """None: the store cannot read it."""
    return word if word <= 100 else None


@dataclass(frozen=True)
class TopicInfo:
    """One topic: its queues, and how many messages they hold."""

    topic: str
    write_queues: int
    read_queues: int
    perm: int
    messages: int


class Admin(GroupAdmin):
    """A session with the store in folder `store` that neither sends nor consumes."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._link = Connection(store)

    @property
    def control(self) -> Control:
        """The store's control block, read-only, for who watches single words."""
        return self._link.control

    def status(self) -> dict[str, Any]:
        """Positions (bytes), counts, the processes, and what start-up found: a dict fit for
        JSON.
        """
        control = self._link.control
        processes = {}
        for number, name in enumerate(ACTORS):
            pid, starts, started_ms, state = control.process(number)
            processes[name] = {
                "pid": pid,
                "starts": starts,
                "started_ms": started_ms,
                "state": ActorState(state).name,
            }
        words = {name: control.load(name) for name in _WORDS}
        return {
            "store": self._link.config.store,
            "state": StoreState(control.load("state")).name,
            **words,
            "dispatch_behind_bytes": words["wrote"] - words["dispatched"],
            "flush_behind_bytes": words["wrote"] - words["flushed"],
            "disk": {
                "log_used_percent": _percent(control.load("log_disk_used")),
                "queue_used_percent": _percent(control.load("queue_disk_used")),
                "flags": [flag.name for flag in DiskFlag(control.load("disk_flags"))],
            },
            "flush_disk_type": "SYNC_FLUSH"
            if self._link.config.level == AckLevel.DURABLE
            else "ASYNC_FLUSH",
            "processes": processes,
            "start_up": self._link.request({"do": "report"})["report"],
        }

    def topics(self) -> list[TopicInfo]:
        """Every topic, in the order of creation."""
        found: list[TopicInfo] = []
        ends = self._link.table.queue_column("max_offset")
        starts = self._link.table.queue_column("min_offset")
        after = 0
        while after >= 0:
            page = self._link.request({"do": "topics", "after": after})
            for topic in page["topics"]:
                slots = range(topic["first_slot"], topic["first_slot"] + topic["read_queues"])
                messages = sum(ends[slot] - starts[slot] for slot in slots if slot < len(ends))
                found.append(
                    TopicInfo(
                        topic["topic"],
                        topic["write_queues"],
                        topic["read_queues"],
                        topic["perm"],
                        messages,
                    )
                )
            after = page["next"]
        return found

    def create_topic(self, topic: str, queues: int = 0) -> None:
        """Makes a topic with `queues` queues (0: the store's default), durably. Nothing to do if it
        is there.

        Raises IllegalMessage for a bad name or number, or if the topic has another number of
        queues.
        """
        self._link.request({"do": "create", "topic": topic, "queues": queues})

    def clean(self) -> None:
        """Asks the store to remove expired files now, whatever the hour: RocketMQ's
        executeDeleteFilesManually. The request is good for 20 runs, the first of them at once.
        """
        self._link.request({"do": "clean"})

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
