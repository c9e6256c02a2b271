"""The base class of all actors: life cycle, heartbeat, signals.

The supervisor forks each actor, and the actor inherits the supervisor's `World`. In shared memory
an actor may write only the words that it owns (`World.take_role`). An actor dies when its parent
dies, and ends after SIGTERM once its `run` returns (`signals.py`). With each heartbeat it looks
whether the supervisor has changed the logging settings.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, ClassVar

import msgspec
import posix_ipc
import setproctitle

from ..conf.logging import configure, from_word, get_logger, tell_repeats
from ..conf.settings import FlushDiskType, Settings
from ..shm._memory import Mapping
from ..shm.bell import BellEnds
from ..shm.control import ActorState, Control, StoreState, failed_actors, process_number
from ..shm.metrics import Metrics
from ..shm.ownership import STARTUP
from ..shm.pool import Pool
from ..store.commitlog.log import CommitLog, disk_full
from ..store.disk.paths import StoreFolders
from ..store.errors import Corrupt, StoreError
from ..store.topics.topic_table import TopicTable
from .descriptors import SHORTAGES, Descriptors, of_this_process
from .parent import die_with_parent
from .signals import handle_in_actor

TICK_S = 1.0
#: Within this time a supervisor that got the same SIGTERM has begun to stop the store.
_GROUP_S = 0.5
# The exit status of an actor that lacks a file of the store, or finds it damaged. A store that
# cannot start for this reason has it too.
BAD_FILE = 5
# The exit status of an actor that finds no disk space. A store that ends for this reason has it
# too.
STORAGE_FULL = 6
# The exit status of an actor for want of descriptors, memory or processes.
SHORTAGE = 7
# The numbers of the sessions through which actors send. The numbers of clients' sessions are
# monotonic clock times in ns, so they are never that small. The indexes of these sessions follow
# the clients', 0 to `max_sessions` - 1.
OWN_SESSIONS = {"schedule": 1, "transactions": 2}


class Session(msgspec.Struct):
    """A client's session as the supervisor holds it. Its descriptors stay open when an actor dies.

    `index` is the session's index in the topic table. `ring` (a memfd), `bell` (an eventfd) and
    `connection` (a socket) are descriptors. `ring` and `bell` are -1 for a session that only reads;
    `connection` is -1 for the store's own session. `capacity` is the ring's data size in bytes.
    `uid` is the client's user. `closing` is True once the client has closed its connection.
    `client_bell` is the session bell (`shm/bell.py`), if the client has asked for one. `board` is
    its board (`shm/board.py`), which only the registry has, or -1.
    """

    number: int
    index: int
    ring: int
    capacity: int
    bell: int
    connection: int
    uid: int
    closing: bool = False
    client_bell: BellEnds | None = None
    board: int = -1


@dataclass
class World:
    """What all processes of a store share: settings, folders, shared memory, sockets, sessions.

    The supervisor makes it before it forks the first actor. Until then the supervisor may write
    every shared word (the role STARTUP).
    """

    settings: Settings
    store_name: str
    store_id: int
    control_memory: Mapping
    table_memory: Mapping
    metrics_memory: Mapping
    folders: StoreFolders
    allocate_semaphore: posix_ipc.Semaphore
    gates: dict[str, posix_ipc.Semaphore]
    listener: socket.socket
    append_mail: tuple[socket.socket, socket.socket]  # (supervisor's end, append's end)
    registry_mail: tuple[socket.socket, socket.socket]
    reput_mail: tuple[socket.socket, socket.socket]
    flush_mail: tuple[socket.socket, socket.socket]
    sessions: dict[int, Session] = field(default_factory=dict)
    report: dict[str, object] = field(default_factory=dict)
    supervisor: int = field(default_factory=os.getpid)  # process number
    descriptors: Descriptors = field(default_factory=of_this_process)

    def __post_init__(self) -> None:
        self.take_role(STARTUP)
        settings = self.settings
        self.log = CommitLog(self.folders, settings.mapped_file_size_commit_log)
        self.pool: Pool | None = None
        if settings.transient_store_pool_enable:
            size = settings.mapped_file_size_commit_log
            self.pool = Pool(self.store_id, settings.transient_store_pool_size, size)

    @property
    def filed(self) -> str:
        """The control word below which the log's bytes are in files."""
        return "committed" if self.pool is not None else "wrote"

    @property
    def dispatch_limit(self) -> str:
        """The control word up to which reput dispatches. Under SYNC_FLUSH a reader must not see a
        message that a power cut could take back.
        """
        return "flushed" if self.syncs else self.filed

    @property
    def dispatch_news(self) -> str:
        """The control word on which reput sleeps. It changes after `dispatch_limit` has. Under
        SYNC_FLUSH it is another one, so that reput does not take the core of the producers that
        flush has woken.
        """
        return "flushes" if self.syncs else self.filed

    @property
    def syncs(self) -> bool:
        """Whether an answer waits for its sync."""
        return self.settings.flush_disk_type == FlushDiskType.SYNC_FLUSH

    def take_role(self, role: str) -> None:
        """Sets the role of this process: the name of an actor, or "supervisor". From now on
        `control`, `table` and `metrics` give out the words of this role for writing, and raise
        NotTheWriter for words of other roles.
        """
        self.control = Control(self.control_memory, role)
        self.table = TopicTable(self.table_memory, role)
        self.metrics = Metrics(self.metrics_memory, role)


class Actor:
    """One process. Subclasses define `name` and `run`, and may define `setup` and `teardown`."""

    name: ClassVar[str]

    def __init__(self, world: World) -> None:
        self.world = world
        world.take_role(self.name)
        self.settings = world.settings
        self.control = world.control
        self.metrics = world.metrics
        self.stopping = False
        self._told = 0.0  # when a SIGTERM came that the supervisor had not announced, monotonic s
        self._state = self.control.word("state")
        self._beat = self.control.own_beat()
        self._logging = self.control.word("logging")
        self._logs_as = 0
        self.logger: Any = get_logger()
        self.metrics.watch(self.settings.slow_operation_ms / 1000, self.say_slow)

    def say_slow(self, stage: str, seconds: float) -> None:
        """Warns of a step that took longer than `slow_operation_ms`."""
        limit = self.settings.slow_operation_ms
        self.logger.warning(
            "a step was slow", stage=stage, took_ms=round(seconds * 1000), limit_ms=limit
        )

    def setup(self) -> None:
        """Takes over the state that the killed process before this one left, if any. The actor
        counts as ready when this returns.
        """

    def run(self) -> None:
        """Works until `stopping` is True, then finishes its pending work and returns."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Runs after `run`, also after an error in `setup` or `run`, but not after a kill."""

    def beat(self) -> None:
        """Stores the time (monotonic ns) as the actor's heartbeat. To be called at least once a
        second: the supervisor kills an actor without a heartbeat for `heartbeat_timeout_ms`.
        """
        self._beat.store(time.monotonic_ns())
        if self._told and time.monotonic() - self._told > _GROUP_S:
            self._told = 0.0
            # A supervisor that stops the store tells each process when its turn has come.
            self.stopping |= self._state.load() <= StoreState.RUNNING
        wanted = self._logging.load()
        if wanted != self._logs_as:
            self._logs_as = wanted
            configure(self.world.store_name, self.name, *from_word(wanted))
        tell_repeats()

    def _pass_gate(self) -> None:
        """Waits until the supervisor has noted this process and releases its semaphore."""
        while not self.stopping:
            self.beat()
            with contextlib.suppress(posix_ipc.BusyError, posix_ipc.SignalError):
                self.world.gates[self.name].acquire(TICK_S)
                return

    def _on_term(self, _number: int, _frame: FrameType | None) -> None:
        """A SIGTERM to the whole process group reaches the supervisor too, which then stops the
        processes in order. So a process that the supervisor has not told to stop waits a moment.
        """
        *_, state = self.control.process(process_number(self.name))
        if state == ActorState.STOPPING:
            self.stopping = True
        else:
            self._told = time.monotonic()

    def live(self, ready_fd: int) -> int:
        """Runs the actor from the fork to its end, and returns the exit status.

        When `setup` is over it writes one byte to the pipe `ready_fd`.
        """
        die_with_parent(self.world.supervisor)
        setproctitle.setproctitle(f"silomq[{self.world.store_name}] {self.name}")
        # Python resumes a wait that a signal interrupts. A wait that includes this descriptor ends.
        self.signal_fd, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        handle_in_actor(self._on_term)
        try:
            self.beat()
            self._pass_gate()
            self.setup()
            os.write(ready_fd, b"1")
            os.close(ready_fd)
            self.run()
        except Exception as error:
            if _is_shortage(error):
                self.logger.critical("no descriptors or memory", error=str(error), exc_info=True)
                return SHORTAGE
            if isinstance(error, OSError) and disk_full(error):
                self.logger.critical("no disk space", error=str(error))
                return STORAGE_FULL
            if _is_bad_file(error):
                # It says so once, and is then tried again and again (`supervisor/bad_files.py`).
                if self.name not in failed_actors(self.control.load("failed")):
                    self.logger.critical(
                        "a file of the store is missing or damaged", error=str(error)
                    )
                return BAD_FILE
            self.logger.critical(
                "actor failed", error=f"{type(error).__name__}: {error}", exc_info=True
            )
            return 1
        finally:
            self.teardown()
            tell_repeats(everything=True)
        return 0


def _is_shortage(error: Exception) -> bool:
    """Whether descriptors or memory are short. EAGAIN does not mean that here: no actor forks, and
    a socket whose reader does not read has no room either (`mail.post`).
    """
    if isinstance(error, BlockingIOError):
        return False
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in SHORTAGES
    )


def _is_bad_file(error: Exception) -> bool:
    """Whether a file is the cause: missing, damaged, a link or a folder in its place, unreadable.
    Errors of sockets name no file.
    """
    if isinstance(error, OSError):
        return error.filename is not None or error.errno in (errno.EIO, errno.EROFS)
    return type(error) is StoreError or isinstance(error, Corrupt)
