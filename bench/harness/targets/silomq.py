"""The store itself, with its own clients: nothing is between a worker and the store but memory."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Final

from .... import __version__
from ....client.admin.admin import Admin
from ....client.producing.producer import Producer
from ....shm.control import ACTORS
from ....store.errors import StoreError
from ....supervisor.removal import remove_store
from .processes import running
from .target import Durability, Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .target import Wanted

#: Read in this order: what follows is never ahead of what was read before.
_WORDS: Final = ("flushed", "dispatch_count", "dispatched", "wrote")
_MANY_TOPICS: Final = 1000
_TIMEOUT_S: Final = 30.0
#: Those that RocketMQ's protocol has as well.
SEND_CALLS: Final = frozenset({"oneway", "send", "async", "batch"})
_SEND_CALLS: Final = SEND_CALLS | {"batch-oneway"}


def settings(wanted: Wanted) -> dict[str, str]:
    """The store's settings for a workload."""
    flush = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}[wanted.flush]
    return {
        "flush_disk_type": flush,
        "transient_store_pool_enable": str(wanted.pool).lower(),
        "mapped_file_size_commit_log": str(wanted.file_size),
        **wanted.settings,
    }


def acknowledged(wanted: Wanted) -> tuple[str, Durability]:
    """What an answer of the store means."""
    if wanted.flush == "sync":
        return "the message is on the disk: it survives a power cut", Durability.DISK
    if wanted.pool:
        text = "the message is in shared memory: it survives the death of all processes"
        return text, Durability.SYSTEM_MEMORY
    text = "the message is in the page cache: it survives the death of all processes"
    return text, Durability.SYSTEM_MEMORY


def actors(admin: Admin) -> dict[str, int]:
    """The store's processes that run."""
    found = {name: admin.control.process(number)[0] for number, name in enumerate(ACTORS)}
    return {name: pid for name, pid in found.items() if pid}


class RunningStore:
    """A store, and a session with it. `command` starts it in `folder`."""

    def __init__(self, folder: Path, wanted: Wanted, command: list[str]) -> None:
        self._folder, self._wanted, self._command = folder, wanted, command
        self._ends = contextlib.ExitStack()

    def start(self) -> None:
        """Starts it, and connects. Raises ServerFailed."""
        log = self._folder.with_name("store.log")
        found: list[Admin] = []

        def connects() -> bool:
            with contextlib.suppress(StoreError):
                found.append(Admin(self._folder))
            return bool(found)

        self.process = self._ends.enter_context(running("the store", self._command, log))
        self.process.wait_for(connects)
        self._admin = self._ends.enter_context(contextlib.closing(found[0]))

    def stop(self) -> None:
        """Ends it in order."""
        self._ends.close()

    def restart(self, between: Callable[[], None]) -> bool:
        self.stop()
        between()
        self.start()
        return True

    def create_topics(self) -> None:
        """Makes the workload's topics. Of many, all but the first are made as by a producer that
        opens them, and saved together: an Admin has each saved, with all that there are.
        """
        topics, queues = self._wanted.topics, self._wanted.queues
        by_hand = topics if len(topics) < _MANY_TOPICS else topics[:1]
        for topic in by_hand:
            self._admin.create_topic(topic, queues)
        if by_hand is topics:
            return
        with contextlib.closing(Producer(self._folder, timeout=_TIMEOUT_S)) as producer:
            for topic in topics[len(by_hand) :]:
                producer.open_topic(topic)

    @property
    def facts(self) -> Facts:
        said, durability = acknowledged(self._wanted)
        calls = frozenset({"poll", "iterate", "listen", "pop", "arrow", "arrow-views"})
        return Facts("SiloMQ", __version__, said, durability, _SEND_CALLS, calls)

    @property
    def endpoint(self) -> dict[str, str]:
        return {"store": str(self._folder), "flush": self._wanted.flush}

    def pids(self) -> dict[str, int]:
        self.process.check()
        return {"supervisor": self.process.process.pid, **actors(self._admin)}

    def worker(self) -> list[str]:
        return [sys.executable, "-P", "-m", f"{__package__}.silomq_client"]

    def positions(self) -> dict[str, int]:
        return {name: self._admin.control.load(name) for name in _WORDS}


@contextlib.contextmanager
def _removed(place: Path) -> Iterator[None]:
    """A store that is removed at the end, also what it has in shared memory if it was killed."""
    try:
        yield
    finally:
        remove_store(place)


@contextlib.contextmanager
def store(folder: Path, wanted: Wanted, extra: dict[str, str]) -> Iterator[RunningStore]:
    """A store with the workload's topics, in `folder`/store. `extra` are further settings."""
    place = folder / "store"
    chosen = {"log_level": "error", **settings(wanted), **extra, "store_path": str(place)}
    if len(wanted.topics) >= _MANY_TOPICS:
        chosen.setdefault("default_topic_queue_nums", str(wanted.queues))
    command = [sys.executable, "-P", "-m", "silomq.supervisor"]
    command += [f"{name}={value}" for name, value in chosen.items()]
    found = RunningStore(place, wanted, command)
    with _removed(place), contextlib.ExitStack() as ends:
        ends.callback(found.stop)
        found.start()
        found.create_topics()
        yield found


class SiloMQ:
    """The target "silomq"."""

    name = "silomq"

    def missing(self) -> str:
        return ""

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[RunningStore]:
        with store(folder, wanted, {}) as found:
            yield found
