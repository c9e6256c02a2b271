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
from collections.abc import Callable
from typing import Any

import setproctitle

from ..actors.actor import BAD_FILE, OWN_SESSIONS, SHORTAGE, STORAGE_FULL
from ..actors.descriptors import HOW_TO_RAISE, SHORTAGES
from ..actors.signals import handle_in_supervisor
from ..conf.logging import configure, get_logger
from ..conf.settings import Settings
from ..shm import mail, segments
from ..shm.control import ACTORS, ActorState, StoreState
from ..shm.history import HistoryWriter
from ..store.disk.paths import ABORT, SOCKET
from .bad_files import BadFiles
from .broker import RINGERS, Broker
from .child import Child, fork, patience_with
from .first_words import say_first_words
from .logging_settings import LoggingSettings
from .notify import Notifier
from .prepare import prepare
from .processes import CLASSES, STOP_ORDER
from .restarts import RestartPolicy

_TICK_S = 1.0
# The pause before another try to start an actor, if the machine has no room for it.
_SHORTAGE_PAUSE_S = 0.25


class GaveUp(Exception):
    """The store ends, because an actor cannot be started. The text says which one and why.

    `status` is the exit status for the supervisor.
    """

    def __init__(self, why: str, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


class Supervisor:
    """Runs one store until a signal ends it (`actors/signals.py`). `run` returns the exit status.

    `reread` reads the settings again, for a SIGHUP.
    """

    def __init__(self, settings: Settings, reread: Callable[[], Settings]) -> None:
        self.settings = settings
        self.notifier = Notifier()
        self.stop_requested = False
        stops_on_hang_up = handle_in_supervisor(self._on_stop)
        self.world, self.lock = prepare(settings)
        configure(self.world.store_name, "supervisor", settings.log_level, settings.log_format)
        self.logger: Any = get_logger()
        say_first_words(self.world, self.logger)
        self.broker = Broker(self.world)
        self.logging = LoggingSettings(self.world, reread, self.logger)
        if not stops_on_hang_up:
            signal.signal(signal.SIGHUP, self.logging.ask)
        self.state = self.world.control.own("state")
        self.beat_word = self.world.control.own_beat()
        world = self.world
        self.history = HistoryWriter(world.metrics_memory, world.control, world.metrics)
        self.children: dict[str, Child] = {}
        self.due: dict[str, float] = {}  # actor -> when to start it again
        self.turned = self.excused = time.monotonic()  # the last turn; the last time it was late
        self.starts = dict.fromkeys(ACTORS, 0)
        self.policies = {
            name: RestartPolicy(settings.restart_backoff_max_ms / 1000, settings.boot_failures_max)
            for name in ACTORS
        }
        self.bad_files = BadFiles(self.world.control.own("failed"), self.logger)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.broker.from_append, selectors.EVENT_READ)
        self.selector.register(self.broker.from_registry, selectors.EVENT_READ)
        self.signal_fd, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        self.selector.register(self.signal_fd, selectors.EVENT_READ)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop_requested = True

    def run(self) -> int:
        """Runs the store until a signal ends it. The exit status: 0 after a stop; when an actor
        could not start, STORAGE_FULL if it found no disk space, BAD_FILE if it lacked a file, else
        1.
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
            while not self._is_ready(name):
                if self.stop_requested:
                    return
                self._turn(0.1)
        self.state.store(StoreState.RUNNING)
        self.notifier.ready("accepting puts")
        self.logger.info("store running", pids={n: c.pid for n, c in self.children.items()})

    def _is_ready(self, name: str) -> bool:
        return name in self.children and self.children[name].ready

    def _spawn(self, name: str) -> None:
        """Forks an actor, notes it in the process table, then releases its gate semaphore.

        If the machine has no room for it, it is due again soon. Raises GaveUp if the store has not
        run yet.
        """
        try:
            child = fork(name, self._become)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            self._put_off(name, error.strerror or str(error))
            return
        self.children[name] = child
        self.due.pop(name, None)
        self.starts[name] += 1
        self.selector.register(child.pidfd, selectors.EVENT_READ, child)
        self.selector.register(child.ready_fd, selectors.EVENT_READ, child)
        self._note(name, child.pid, ActorState.BOOTING)
        self.world.gates[name].release()

    def _put_off(self, name: str, why: str) -> None:
        """Starts an actor later, because something is short that the machine may have again soon.
        Raises GaveUp if the store has not run yet: whoever starts it can then change that.
        """
        if self.state.load() != StoreState.RUNNING:
            raise GaveUp(f"cannot start {name}: {why}; {HOW_TO_RAISE}, or free memory")
        self.logger.error("cannot start an actor now, trying again", actor_name=name, why=why)
        self.due[name] = time.monotonic() + _SHORTAGE_PAUSE_S

    def _become(self, name: str, ready_fd: int) -> None:
        """Runs the actor in the child after the fork. Never returns."""
        status = 1
        try:
            self.selector.close()
            for child in self.children.values():
                os.close(child.pidfd)
            self._keep_sessions_for(name)
            settings = self.world.settings
            configure(self.world.store_name, name, settings.log_level, settings.log_format)
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
            mine = session.number == OWN_SESSIONS.get(name)
            if name not in ("registry", "append") and not mine:
                mail.close_all([fd for fd in (session.ring, session.bell) if fd >= 0])
            rings_bell = name == "append" and session.ring >= 0
            if session.client_bell and name not in ("registry", *RINGERS) and not rings_bell:
                session.client_bell.close()
                session.client_bell = None
        if name not in ("registry", "append", *OWN_SESSIONS, *RINGERS):
            self.world.sessions.clear()

    def _note(self, name: str, pid: int, state: ActorState) -> None:
        self.world.control.store_process(
            ACTORS.index(name), pid, self.starts[name], int(time.time() * 1000), state
        )

    # -- watching

    def _turn(self, patience_s: float) -> None:
        """One turn of the loop: events of children and mail, then starts that are due."""
        self.beat_word.store(time.monotonic_ns())
        if self.logging.asked:
            self.logging.read()
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
        self.history.tick()
        self._replace_frozen()
        self.bad_files.forget(self.children.values())
        for name in [n for n, when in self.due.items() if when <= time.monotonic()]:
            self._spawn(name)

    def _child_news(self, child: Child, fd: int) -> None:
        if fd == child.ready_fd and fd >= 0:
            if os.read(child.ready_fd, 1):
                child.ready = True
                child.started = time.monotonic()
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
            why = f"no disk space for {child.name} to start: free some, then start again"
            raise GaveUp(why, code)
        if code == SHORTAGE and self.state.load() == StoreState.RUNNING:
            self._put_off(child.name, "its limit of open files, or memory, was used up")
            return
        if code == BAD_FILE and self.state.load() != StoreState.RUNNING:
            why = "a file of the store is missing or damaged; it has said which one"
            raise GaveUp(f"{child.name} cannot start: {why}", BAD_FILE)
        policy = self.policies[child.name]
        delay = policy.died(was_ready=child.ready, lived_s=lived)
        if code == BAD_FILE and policy.short_lives > 1:
            self.bad_files.note(child.name)
            self.due[child.name] = time.monotonic() + policy.max_delay_s
            return
        said = f"signal {-code}" if code < 0 else f"exit status {code}"
        if delay is None:
            times = self.settings.boot_failures_max
            raise GaveUp(f"{child.name} failed to start {times} times (last: {said})")
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
        them again. After the supervisor itself has stood still, they get the whole time once more:
        Ctrl-Z and `fg` stop and continue all of them.
        """
        limit_s = self.settings.heartbeat_timeout_ms / 1000
        now = time.monotonic()
        if now - self.turned > min(limit_s, limit_s / 2 + _TICK_S):
            self.excused = now
        self.turned = now
        for child in self.children.values():
            beat = self.world.control.beat(child.name).load() / 1e9
            silent = now - max(beat, child.started, self.excused)
            if silent > limit_s and silent > limit_s * patience_with(child):
                self.logger.error(
                    "actor does not beat, killing it", frozen=child.name, silent_s=round(silent, 1)
                )
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                child.started = now  # it dies a moment later: not to be killed in the next turn

    # -- stopping

    def _stop_all(self) -> None:
        """Stops the actors in order, each after it has finished its work. Then removes the socket,
        the shared memory (but for a pool whose bytes could not be written) and, if all is durable,
        `abort` and unused log files.
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
        self._note(child.name, child.pid, ActorState.STOPPING)
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
            try:
                log.unwrite_from(end)
            except OSError as error:  # it would only save the next start some time
                self.logger.warning("cannot mark the log's end as unwritten", error=str(error))
            world.folders.root.unlink(ABORT)
        self.broker.close_all()
        world.listener.close()
        with contextlib.suppress(FileNotFoundError):
            world.folders.root.unlink(SOCKET)
        rest = end - world.control.load("committed") if world.pool else 0
        if rest:
            # As after a kill of all processes: the next start puts them into the log.
            why = "the log lacks messages of the pool: they wait in memory for the next start"
            self.logger.error(why, bytes=rest)
        else:
            segments.remove_all(world.store_id)
        os.close(self.lock)
        self.logger.info("store stopped", clean=clean, log_end=end)


def serve(
    settings: Settings, reread: Callable[[], Settings], claimed: Callable[[], None] = lambda: None
) -> int:
    """Runs a store in this process until SIGTERM or SIGINT. Returns the exit status. `reread` reads
    the settings again for a SIGHUP. `claimed` is called once the store is this process's own.

    Raises StoreError, Corrupt and OSError when the store cannot start.
    """
    configure(settings.store_path.name, "supervisor", settings.log_level, settings.log_format)
    supervisor = Supervisor(settings, reread)
    claimed()
    return supervisor.run()
