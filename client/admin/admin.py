"""`Admin`: looks at a running store; makes, changes and deletes topics."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ...shm.control import ACTORS, ActorState, Control, StoreState
from ...store.retention.rules import DiskFlag
from ...store.status import AckLevel
from ..session import Connection
from .group_admin import GroupAdmin

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
    order: bool = False


@dataclass(frozen=True)
class QueueInfo:
    """One queue: it holds the messages [min_offset, max_offset). `read` and `write` say whether
    consumers and producers use it.
    """

    queue_id: int
    min_offset: int
    max_offset: int
    read: bool
    write: bool


@dataclass(frozen=True)
class TopicStatus(TopicInfo):
    """A topic with its queues, also those that it no longer uses."""

    queues: tuple[QueueInfo, ...] = ()


def _info(topic: dict[str, Any], messages: int) -> TopicInfo:
    return TopicInfo(
        topic["topic"],
        topic["write_queues"],
        topic["read_queues"],
        topic["perm"],
        messages,
        topic["order"],
    )


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
        table = self._link.table
        ends, starts = table.queue_column("max_offset"), table.queue_column("min_offset")
        after = 0
        while after >= 0:
            page = self._link.request({"do": "topics", "after": after})
            for topic in page["topics"]:
                slots = table.topic(topic["index"]).slots[: topic["read_queues"]]
                messages = sum(ends[slot] - starts[slot] for slot in slots if 0 <= slot < len(ends))
                found.append(_info(topic, messages))
            after = page["next"]
        return found

    def topic(self, topic: str) -> TopicStatus:
        """One topic and its queues. Raises IllegalMessage if there is none of that name."""
        found = self._link.request({"do": "topic", "topic": topic})["topic"]
        table = self._link.table
        queues = tuple(
            QueueInfo(
                queue_id,
                table.queue_word(slot, "min_offset").load(),
                table.queue_word(slot, "max_offset").load(),
                queue_id < found["read_queues"],
                queue_id < found["write_queues"],
            )
            for queue_id, slot in enumerate(table.topic(found["index"]).slots)
        )
        messages = sum(queue.max_offset - queue.min_offset for queue in queues if queue.read)
        return TopicStatus(**dataclasses.asdict(_info(found, messages)), queues=queues)

    def create_topic(
        self,
        topic: str,
        queues: int = 0,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
    ) -> None:
        """Makes a topic with `queues` queues (0: the store's default), durably. Nothing to do if it
        is there. With any of the other values it is as `update_topic`, where `queues` stands for
        those of the two numbers that are not given.

        Raises IllegalMessage for a bad name or number, a topic of the store's own, or if the topic
        has another number of queues.
        """
        if read_queues is write_queues is perm is order is None:
            self._link.request({"do": "create", "topic": topic, "queues": queues})
            return
        otherwise = queues or None
        self.update_topic(
            topic,
            read_queues=otherwise if read_queues is None else read_queues,
            write_queues=otherwise if write_queues is None else write_queues,
            perm=perm,
            order=order,
        )

    def update_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
    ) -> None:
        """Changes a topic, durably, and makes it if there is none: RocketMQ's updateTopic. What is
        None stays as it is, or is the store's default.

        `perm` is 2 (write), 4 (read) or 6. When this returns, what was taken back is: nobody's
        message is written any more. Fewer queues: the others keep their messages, and are used
        again when there are more. Producers and consumers learn of other queues when they open the
        topic next (`Producer.open_topic`).

        Raises IllegalMessage for a bad name or number, or a topic of the store's own.
        """
        changes = {
            "read_queues": read_queues,
            "write_queues": write_queues,
            "perm": perm,
            "order": order,
        }
        self._link.request({"do": "alter", "topic": topic, "changes": changes})

    def delete_topic(self, topic: str) -> bool:
        """Deletes a topic with its queues, durably: whether there was one (also False when a
        registry was killed while it was at it, and its successor finished).

        The messages are never served again, though their records stay in the log until they
        expire. A new topic of that name begins with queue offset 0. Raises IllegalMessage for a
        topic of the store's own.
        """
        return bool(self._link.request({"do": "delete", "topic": topic})["deleted"])

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
