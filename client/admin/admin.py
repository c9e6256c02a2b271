"""`Admin`: shows the state of a running store; makes, changes and deletes topics."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ...shm.control import ACTORS, ActorState, Control, StoreState, failed_actors
from ...shm.protocol.answers import UserFound
from ...shm.protocol.figure_requests import AskUsers
from ...shm.protocol.requests import Alter, AskReport, AskTopic, AskTopics, Clean, Create, Delete
from ...store.errors import IllegalArgument
from ...store.retention.rules import DiskFlag
from ...store.status import AckLevel
from .. import arguments
from ..session import Connection
from . import changes
from .brokers import read_brokers
from .figures import Figures, statistics
from .group_admin import GroupAdmin
from .topic_info import QueueInfo, TopicInfo, TopicStatus, limit_changes, settings_of

#: The longest trial of new code.
_LONGEST_TRIAL_S = 3600.0
# Words of the control block that `status` repeats (`shm/control.py` says what each one means).
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


class Admin(GroupAdmin):
    """Inspects and manages the running store in folder `store`. Its session neither sends nor
    consumes.

    Use it in a `with` block, or call `close`. Methods may be called from any thread.

    The constructor raises StoreClosed when no store runs there or the user may not connect. All
    methods raise StoreClosed when the store stopped or does not answer within 10 seconds. They
    raise IllegalMessage when the store refuses a request; its `why` says what is allowed.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._link = Connection(store, client="Admin")
        self._figures: Figures | None = None

    @property
    def control(self) -> Control:
        """The store's control block in shared memory, read-only. A program that watches single
        words (`shm/control.py` lists them) reads them here without a request.
        """
        return self._link.control

    @property
    def figures(self) -> Figures:
        """What the store has counted (`shm/metrics.py`), and its last hour (`shm/history.py`), in
        shared memory, read-only. Raises as all methods do.
        """
        if self._figures is None:
            self._figures = Figures(self._link)
        return self._figures

    def status(self) -> dict[str, Any]:
        """The state of the store, as a dictionary that can be written as JSON.

        - `store`: its folder. `state`: STARTING, RUNNING, DRAINING or STOPPED. `flush_disk_type`:
          SYNC_FLUSH or ASYNC_FLUSH.
        - Addresses in the commit log, bytes: `wrote` (its end), `committed`, `flushed`,
          `dispatched` (how far each step has come), `min_offset` (start of the first file), `ready`
          (end of the last file made ahead). `dispatch_behind_bytes` and `flush_behind_bytes` say
          how far these two are behind `wrote`.
        - Counts: `records` (appended), `rejected` (messages refused), `dispatch_count`, `flushes`,
          `files_removed`, `manual_runs` (left of a `clean`), `sessions`, `topics`.
        - Times, milliseconds since 1970: `started_ms`, `cleaned_ms`, `store_time_ms`.
        - `flush_error`: errno of a failed sync, after which the store takes no messages; else 0.
          `allocate_error`: errno of the last failure to make a file, 0 after a success.
          `locked_bytes`: memory that is locked for files.
        - `failed`: the actors that cannot go on because a file is missing or damaged.
        - `disk`: `log_used_percent` and `queue_used_percent`, None when they are unknown, and
          `flags`: DISK_FULL, LOGIC_DISK_FULL, or none.
        - `processes`: for each actor `pid` (0 while it does not run), `starts` (how often),
          `started_ms`, `state`.
        - `start_up`: what the last start found and did, by name.
        - `statistics`: RocketMQ's StoreStatsService. Puts since the start: their times until they
          are appended (`put_ms_99` and so on, and `put_distribution` in RocketMQ's ranges). Reads
          by local clients: `get_found`, `get_missed`, and `get_messages` that they read. Names
          that end in `_rates` are growths a second in the last 10, 60 and 600 s. Lags of flush and
          dispatch in bytes, messages and seconds.
        - `users`: for each user `uid`, `sessions`, `ring_bytes` (memory of its rings) and
          `in_flight_bytes` (what lies in them unanswered). `topics` and `groups` say how many it
          has made; 0 for the store's own user and root, who have no limits.
        - `brokers`: what each broker of the store says of itself (docs/broker-status.md):
          connections, requests, groups, name servers. Each has `session`, `uid`, and `problem`: "",
          or why there is nothing else. Texts in it come from the network as they are.
        """
        control = self._link.control
        words = {name: control.load(name) for name in _WORDS}
        sync = self._link.config.level == AckLevel.DURABLE
        return {
            "store": self._link.config.store,
            "state": StoreState(control.load("state")).name,
            **words,
            "failed": failed_actors(control.load("failed")),
            "dispatch_behind_bytes": words["wrote"] - words["dispatched"],
            "flush_behind_bytes": words["wrote"] - words["flushed"],
            "disk": {
                "log_used_percent": _percent(control.load("log_disk_used")),
                "queue_used_percent": _percent(control.load("queue_disk_used")),
                "flags": [flag.name for flag in DiskFlag(control.load("disk_flags"))],
            },
            "flush_disk_type": "SYNC_FLUSH" if sync else "ASYNC_FLUSH",
            "processes": {name: _process(control, n) for n, name in enumerate(ACTORS)},
            "statistics": statistics(self.figures),
            "start_up": self._link.request(AskReport()).report,
            "users": [_user(one) for one in self._link.request(AskUsers()).users],
            "brokers": read_brokers(self._link),
        }

    def topics(self) -> list[TopicInfo]:
        """All topics, also the store's own, in the order in which they were made."""
        found: list[TopicInfo] = []
        table = self._link.table
        ends, starts = table.queue_column("max_offset"), table.queue_column("min_offset")
        after = 0
        while after >= 0:
            page = self._link.request(AskTopics(after))
            for entry in page.topics:
                slots = table.topic(entry.index).slots[: entry.read_queues]
                messages = sum(ends[slot] - starts[slot] for slot in slots if 0 <= slot < len(ends))
                found.append(TopicInfo(entry.topic, messages=messages, **settings_of(entry)))
            after = page.next
        return found

    def topic(self, topic: str) -> TopicStatus:
        """One topic and its queues. Raises IllegalMessage if no topic has that name."""
        topic = arguments.text("topic", topic)
        entry = self._link.request(AskTopic(topic)).topic
        table = self._link.table
        queues = tuple(
            QueueInfo(
                queue_id,
                table.queue_word(slot, "min_offset").load(),
                table.queue_word(slot, "max_offset").load(),
                queue_id < entry.read_queues,
                queue_id < entry.write_queues,
            )
            for queue_id, slot in enumerate(table.topic(entry.index).slots)
        )
        messages = sum(queue.max_offset - queue.min_offset for queue in queues if queue.read)
        return TopicStatus(entry.topic, messages=messages, queues=queues, **settings_of(entry))

    def create_topic(
        self,
        topic: str,
        queues: int = 0,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        reserved_time_h: int | None = None,
        reserved_size: int | None = None,
        reserved_unconsumed_h: int | None = None,
    ) -> None:
        """Makes a topic with `queues` queues (0: the store's `default_topic_queue_nums`). The
        topic is durable when this returns. Nothing happens if it exists already.

        With any other argument this is `update_topic`. If `read_queues` or `write_queues` is not
        given, `queues` is used for it.

        Raises IllegalMessage for a name or number that is not allowed, for a topic of the store's
        own, and when the topic exists with another number of queues.
        """
        topic = arguments.text("topic", topic)
        queues = arguments.whole("queues", queues, -(2**63))
        limits = (reserved_time_h, reserved_size, reserved_unconsumed_h)
        if all(value is None for value in (read_queues, write_queues, perm, order, *limits)):
            self._link.request(Create(topic, queues))
            return
        otherwise = queues or None
        self.update_topic(
            topic,
            read_queues=otherwise if read_queues is None else read_queues,
            write_queues=otherwise if write_queues is None else write_queues,
            perm=perm,
            order=order,
            reserved_time_h=reserved_time_h,
            reserved_size=reserved_size,
            reserved_unconsumed_h=reserved_unconsumed_h,
        )

    def update_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        reserved_time_h: int | None = None,
        reserved_size: int | None = None,
        reserved_unconsumed_h: int | None = None,
    ) -> None:
        """Changes a topic, or makes it if it does not exist (RocketMQ's updateTopic).

        An argument of None leaves its attribute unchanged, or at the store's default in a new
        topic. The change is durable when this returns.

        `perm` is 2 (write), 4 (read) or 6 (both). When the permission to write is taken back, no
        producer's message is written to the topic after this returns. When a topic gets fewer
        queues, the others keep their messages, and are used again when the topic gets more.
        Producers and consumers learn of other numbers of queues when they open the topic next
        (`Producer.open_topic`).

        The last three say how long the topic's messages are kept, in place of the store's settings
        `file_reserved_time_h`, `file_reserved_size` (bytes) and `file_reserved_unconsumed_h`. -1
        stands for the setting. 0 as a time is -1; as the others it is no such limit.

        Raises IllegalMessage for a name or number that is not allowed, and for a topic of the
        store's own.
        """
        request = Alter(
            arguments.text("topic", topic),
            _number_or_none("read_queues", read_queues),
            _number_or_none("write_queues", write_queues),
            _number_or_none("perm", perm),
            None if order is None else arguments.switch("order", order),
            set_attributes=limit_changes(reserved_time_h, reserved_size, reserved_unconsumed_h),
        )
        self._link.request(request)

    def delete_topic(self, topic: str) -> bool:
        """Deletes a topic with its queues, durably. Returns whether there was one.

        When the registry is killed during the deletion, its successor finishes it; then this may
        return False. The messages are never served again, though their records stay in the commit
        log until their files expire. A new topic of that name begins with queue offset 0. Raises
        IllegalMessage for a topic of the store's own.
        """
        return self._link.request(Delete(arguments.text("topic", topic))).deleted

    def clean(self) -> None:
        """Asks the store to remove expired files now, at any hour (RocketMQ's
        executeDeleteFilesManually). The request allows 20 cleaning runs, of which the first begins
        at once. This method returns before they have begun.
        """
        self._link.request(Clean())

    def restart(self, actor: str) -> float:
        """Replaces the process `actor` of the store (`silo status` lists the names), and returns
        for how long nobody did its work, ms. No message is lost or doubled.

        Raises IllegalMessage for an unknown name and for users who may not do this: the store's
        user and root may. Raises StoreError if the new process does not start.
        """
        name = arguments.text("actor", actor)
        outcome = changes.follow(self._link, "actor", _unheard, actor=name)
        return outcome.stalls_ms[name]

    def reload(self) -> str:
        """Has the store read its settings again, as SIGHUP does. Returns which have changed, and
        which need a restart. Raises StoreError, which says what is wrong, if nothing changes;
        IllegalMessage as `restart`.
        """
        return changes.follow(self._link, "settings", _unheard).text

    def reload_code(
        self, *, trial_s: float = 5.0, say: Callable[[str], None] | None = None
    ) -> dict[str, float]:
        """Replaces the code of all the store's processes by that which is installed now, while
        clients go on. Returns for how long nobody did the work of each process, ms.

        New processes must run for `trial_s` (up to an hour) before they are kept. `say` hears of
        each step. Raises StoreError, which says why, if the store runs its old code on;
        IllegalMessage as `restart`.
        """
        seconds = arguments.seconds("trial_s", trial_s)
        if seconds > _LONGEST_TRIAL_S:
            raise IllegalArgument(f"trial_s {seconds:g}: at most {_LONGEST_TRIAL_S:.0f} seconds")
        hears = _unheard if say is None else arguments.function("say", say)
        trial_ms = round(seconds * 1000)
        outcome = changes.follow(self._link, "code", hears, trial_ms=trial_ms)
        return outcome.stalls_ms

    def close(self) -> None:
        """Ends the session. May be called again."""
        self._link.close()

    __reduce_ex__ = arguments.no_copy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _unheard(_step: str) -> None:
    """Nobody listens to the steps of a change."""


def _number_or_none(name: str, value: object) -> int | None:
    """A number whose range the registry checks; None stays None."""
    return None if value is None else arguments.whole(name, value, -(2**63))


def _user(found: UserFound) -> dict[str, int]:
    return {
        "uid": found.uid,
        "sessions": found.sessions,
        "ring_bytes": found.ring_bytes,
        "in_flight_bytes": found.in_flight_bytes,
        "topics": found.topics,
        "groups": found.groups,
    }


def _percent(word: int) -> int | None:
    """A disk's usage in percent; None when the store could not measure it."""
    return word if word <= 100 else None


def _process(control: Control, number: int) -> dict[str, Any]:
    pid, starts, started_ms, state = control.process(number)
    return {
        "pid": pid,
        "starts": starts,
        "started_ms": started_ms,
        "state": ActorState(state).name,
    }
