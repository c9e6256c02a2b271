"""The supervisor's loop: starts the actors in order, watches and replaces them, and stops them in
order.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import time
from dataclasses import dataclass
from typing import Any

import setproctitle

from ..actors.actor import SCHEDULE_SESSION, STOP_SIGNALS, STORAGE_FULL, Actor
from ..actors.allocate import Allocate
from ..actors.append import Append
from ..actors.clean import Clean
from ..actors.commit import Commit
from ..actors.flush import Flush
from ..actors.registry.registry import Registry
from ..actors.reput import Reput
from ..actors.schedule.schedule import Schedule
from ..conf.logging import configure, get_logger
from ..conf.settings import Settings
from ..shm import mail, segments
from ..shm.control import ACTORS, ActorState, StoreState
from ..store.disk.paths import ABORT, SOCKET
from .broker import Broker
from .notify import Notifier
from .prepare import prepare
from .restarts import RestartPolicy

CLASSES: dict[str, type[Actor]] = {
    actor.name: actor
    for actor in (Allocate, Append, Commit, Flush, Reput, Clean, Registry, Schedule)
}
# First the sources of new work end: clients' requests and delayed messages. Then each process ends
# after the one that gives it work. Clean and allocate serve the others, and end last.
STOP_ORDER = ("registry", "schedule", "append", "commit", "reput", "flush", "clean", "allocate")
_BOOT_TIMEOUT_S = 60.0
_TICK_S = 1.0
# A process in uninterruptible sleep waits for the disk and cannot beat: it gets this many times
# `heartbeat_timeout_ms`.
_DISK_PATIENCE = 20
assert tuple(CLASSES) == ACTORS
assert sorted(STOP_ORDER) == sorted(ACTORS)


@dataclass
class Child:
    """One running actor. `pidfd` is readable when it ends, `ready_fd` when it is ready; `ready_fd`
    is -1 once it was read. `started` is in monotonic seconds.
    """

    name: str
    pid: int
    pidfd: int
    ready_fd: int
    started: float
    ready: bool = False


class GaveUp(Exception):
    """The store ends, because an actor cannot be started. The text says which one and why.

    `status` is the exit status for the supervisor.
    """

    def __init__(self, why: str, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


class Supervisor:
    """Runs one store until SIGTERM or SIGINT. `run` returns the exit status."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.notifier = Notifier()
        self.stop_requested = False
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_stop)
        self.world, self.lock = prepare(settings)
        configure(self.world.store_name, "supervisor", settings.log_level, settings.log_format)
        self.logger: Any = get_logger()
        self.logger.info("store recovered", path=self.world.folders.root.path, **self.world.report)
        self.broker = Broker(self.world)
        self.state = self.world.control.own("state")
        self.beat_word = self.world.control.own_beat()
        self.children: dict[str, Child] = {}
        self.due: dict[str, float] = {}  # actor -> when to start it again
        self.starts = dict.fromkeys(ACTORS, 0)
        self.policies = {
            name: RestartPolicy(settings.restart_backoff_max_ms / 1000, settings.boot_failures_max)
            for name in ACTORS
        }
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.broker.from_append, selectors.EVENT_READ)
        self.selector.register(self.broker.from_registry, selectors.EVENT_READ)
        self.signal_fd, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        self.selector.register(self.signal_fd, selectors.EVENT_READ)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop_requested = True

    def run(self) -> int:
        """Runs the store until a signal ends it. The exit status: 0 after a stop, STORAGE_FULL when
        an actor found no disk space to start, 1 when an actor could not be started otherwise.
        """
        setproctitle.setproctitle(f"silomq[{self.world.store_name}] supervisor")
        status = 0
        try:
            self._start_all()
            while not self.stop_requested:
                self._turn(_TICK_S)
        except GaveUp as error:
            self.logger.critical("giving up", why=str(error))
            status = error.status
        finally:
            self._stop_all()
        return status

    # -- starting

    def _start_all(self) -> None:
        gc.collect()
        gc.freeze()  # or each child's garbage collector would write to, and copy, shared pages
        for name in ACTORS:
            self._spawn(name)
            deadline = time.monotonic() + _BOOT_TIMEOUT_S
            while not self._is_ready(name):
                if self.stop_requested:
                    return
                if time.monotonic() > deadline:
                    raise GaveUp(f"{name} was not ready within {_BOOT_TIMEOUT_S:g} s")
                self._turn(0.1)
        self.state.store(StoreState.RUNNING)
        self.notifier.ready("accepting puts")
        self.logger.info("store running", pids={n: c.pid for n, c in self.children.items()})

    def _is_ready(self, name: str) -> bool:
        return name in self.children and self.children[name].ready

    def _spawn(self, name: str) -> None:
        """Forks an actor, notes it in the process table, then releases its gate semaphore."""
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        # The child inherits the supervisor's signal handlers. Signals stay blocked in it until
        # `live` has set its own.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._become(name, write_fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        os.close(write_fd)
        child = Child(name, pid, os.pidfd_open(pid), read_fd, time.monotonic())
        self.children[name] = child
        self.due.pop(name, None)
        self.starts[name] += 1
        self.selector.register(child.pidfd, selectors.EVENT_READ, child)
        self.selector.register(child.ready_fd, selectors.EVENT_READ, child)
        self._note(name, pid, ActorState.BOOTING)
        self.world.gates[name].release()

    def _become(self, name: str, ready_fd: int) -> None:
        """Runs the actor in the child after the fork. Never returns."""
        status = 1
        try:
            self.selector.close()
            for child in self.children.values():
                os.close(child.pidfd)
            self._keep_sessions_for(name)
            configure(
                self.world.store_name, name, self.settings.log_level, self.settings.log_format
            )
            status = CLASSES[name](self.world).live(ready_fd)
        finally:
            os._exit(status)

    def _keep_sessions_for(self, name: str) -> None:
        """In the child: closes the descriptors of sessions that this actor does not use. They would
        stay open here after the end of the session.
        """
        for session in self.world.sessions.values():
            if name != "registry":
                mail.close_all([session.connection])
            mine = name == "schedule" and session.number == SCHEDULE_SESSION
            if name not in ("registry", "append") and not mine:
                mail.close_all([fd for fd in (session.ring, session.bell) if fd >= 0])
        if name not in ("registry", "append", "schedule"):
            self.world.sessions.clear()

    def _note(self, name: str, pid: int, state: ActorState) -> None:
        self.world.control.store_process(
            ACTORS.index(name), pid, self.starts[name], int(time.time() * 1000), state
        )

    # -- watching

    def _turn(self, patience_s: float) -> None:
        """One turn of the loop: events of children and mail, then starts that are due."""
        self.beat_word.store(time.monotonic_ns())
        if self.due:
            patience_s = min(patience_s, max(0.0, min(self.due.values()) - time.monotonic()))
        if self.notifier.watchdog_s:
            patience_s = min(patience_s, self.notifier.watchdog_s)
            self.notifier.ping()
        for key, _ in self.selector.select(patience_s):
            if isinstance(key.data, Child):
                self._child_news(key.data, int(key.fd))
            elif key.fd == self.signal_fd:
                os.read(self.signal_fd, 4096)
            else:
                self.broker.read(key.fileobj)  # type: ignore[arg-type] # the two mail sockets
        self.broker.send_waiting()
        self._replace_frozen()
        for name in [n for n, when in self.due.items() if when <= time.monotonic()]:
            self._spawn(name)

    def _child_news(self, child: Child, fd: int) -> None:
        if fd == child.ready_fd and fd >= 0:
            if os.read(child.ready_fd, 1):
                child.ready = True
                self._note(child.name, child.pid, ActorState.READY)
            self.selector.unregister(child.ready_fd)
            os.close(child.ready_fd)
            child.ready_fd = -1
        elif fd == child.pidfd and self.children.get(child.name) is child:
            self._bury(child)

    def _bury(self, child: Child) -> None:
        """Collects a dead actor and starts it again, at once or after a delay. Raises GaveUp."""
        code = self._reap(child)
        lived = time.monotonic() - child.started
        self._note(child.name, 0, ActorState.DEAD)
        if self.stop_requested:
            return
        if code == STORAGE_FULL and not child.ready:
            raise GaveUp(
                f"no disk space for {child.name} to start: free some, then start again", code
            )
        delay = self.policies[child.name].died(was_ready=child.ready, lived_s=lived)
        said = f"signal {-code}" if code < 0 else f"exit status {code}"
        if delay is None:
            raise GaveUp(
                f"{child.name} failed to start {self.settings.boot_failures_max} times "
                f"(last: {said})"
            )
        self.logger.warning(
            "actor died, replacing it", died=child.name, how=said, delay_ms=round(delay * 1000)
        )
        if delay == 0:
            self._spawn(child.name)
        else:
            self.due[child.name] = time.monotonic() + delay

    def _reap(self, child: Child) -> int:
        """Collects a dead child. Returns its exit status, or the signal's number below zero."""
        del self.children[child.name]
        self.selector.unregister(child.pidfd)
        os.close(child.pidfd)
        if child.ready_fd >= 0:
            # The child may have become ready and died since the last turn.
            child.ready = os.read(child.ready_fd, 1) == b"1"
            self.selector.unregister(child.ready_fd)
            os.close(child.ready_fd)
            child.ready_fd = -1
        return os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])

    def _replace_frozen(self) -> None:
        """Kills actors that have not beaten for too long. The loop then sees their death and starts
        them again.
        """
        limit_s = self.settings.heartbeat_timeout_ms / 1000
        now = time.monotonic()
        for child in self.children.values():
            beat = self.world.control.beat(child.name).load() / 1e9
            silent = now - max(beat, child.started)
            if silent > limit_s * (_DISK_PATIENCE if waits_for_disk(child.pid) else 1):
                self.logger.error(
                    "actor does not beat, killing it", frozen=child.name, silent_s=round(silent, 1)
                )
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                child.started = now  # it dies a moment later: not to be killed in the next turn

    # -- stopping

    def _stop_all(self) -> None:
        """Stops the actors in order, each after it has finished its work. Then removes the socket,
        the shared memory and, if all is durable, `abort` and unused log files.
        """
        self.stop_requested = True
        self.due.clear()
        self.notifier.stopping()
        self.state.store(StoreState.DRAINING)
        deadline = time.monotonic() + self.settings.stop_timeout_ms / 1000
        clean = True
        for name in STOP_ORDER:
            child = self.children.get(name)
            if child is not None:
                clean &= self._stop_one(child, deadline)
        self.state.store(StoreState.STOPPED)
        self._clean_up(clean=clean and self._all_is_durable())

    def _stop_one(self, child: Child, deadline: float) -> bool:
        """Ends an actor by SIGTERM, and by SIGKILL at the deadline. Whether it ended by itself."""
        signal.pidfd_send_signal(child.pidfd, signal.SIGTERM)
        while self.children.get(child.name) is child:
            left = deadline - time.monotonic()
            if left <= 0:
                self.logger.error("actor does not stop, killing it", frozen=child.name)
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                self._reap(child)
                return False
            for key, _ in self.selector.select(left):
                if isinstance(key.data, Child):
                    self._child_news(key.data, int(key.fd))
                elif key.fd == self.signal_fd:
                    os.read(self.signal_fd, 4096)
                else:
                    self.broker.read(key.fileobj)  # type: ignore[arg-type] # the two mail sockets
        return True

    def _all_is_durable(self) -> bool:
        control = self.world.control
        wrote = control.load("wrote")
        return wrote == control.load("flushed") == control.load("dispatched")

    def _clean_up(self, *, clean: bool) -> None:
        world = self.world
        end = world.control.load("wrote")
        if clean:
            log = world.log
            used = (
                log.base_of(end) if end % log.file_size == 0 else log.base_of(end) + log.file_size
            )
            log.remove_from(used)
            world.folders.root.unlink(ABORT)
        self.broker.close_all()
        world.listener.close()
        with contextlib.suppress(FileNotFoundError):
            world.folders.root.unlink(SOCKET)
        segments.remove_all(world.store_id)
        os.close(self.lock)
        self.logger.info("store stopped", clean=clean, log_end=end)


def waits_for_disk(pid: int) -> bool:
    """Whether the process is in uninterruptible sleep (state D of /proc/PID/stat)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] == b"D"
    except OSError:
        return False


def serve(settings: Settings) -> int:
    """Runs a store in this process until SIGTERM or SIGINT. Returns the exit status.

    Raises StoreError, Corrupt and OSError when the store cannot start.
    """
    configure(settings.store_path.name, "supervisor", settings.log_level, settings.log_format)
    return Supervisor(settings).run()
