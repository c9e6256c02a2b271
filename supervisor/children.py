"""The actors of a store as the supervisor's children: forked, watched, buried, started again."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..actors.actor import BAD_FILE, OWN_SESSIONS, SHORTAGE, STORAGE_FULL, Session, World
from ..actors.descriptors import HOW_TO_RAISE, SHORTAGES
from ..conf.logging import configure
from ..shm import mail
from ..shm.control import ACTORS, ActorState, StoreState
from .bad_files import BadFiles
from .broker import RINGERS
from .child import Child, fork, patience_with
from .processes import CLASSES
from .restarts import RestartPolicy

#: The supervisor's loop turns at least so often (s).
TICK_S: Final = 1.0
# The pause before another try to start an actor, if the machine has no room for it.
_SHORTAGE_PAUSE_S = 0.25


class GaveUp(Exception):
    """The store ends, because an actor cannot be started. The text says which one and why.

    `status` is the exit status for the supervisor.
    """

    def __init__(self, why: str, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


class Children:
    """The running actors by name. `selector` watches them; what it reports goes to `news`.

    `opened` returns further descriptors of the supervisor, which a child closes after the fork.
    """

    def __init__(
        self,
        world: World,
        selector: selectors.BaseSelector,
        logger: Any,
        opened: Callable[[], list[int]],
    ) -> None:
        self.world = world
        self.running: dict[str, Child] = {}
        self.due: dict[str, float] = {}  # actor -> when to start it again
        self.starts = dict.fromkeys(ACTORS, 0)
        self.stopping = False
        self.policies: dict[str, RestartPolicy] = {}
        self.set_policies()
        self.bad_files = BadFiles(world.control.own("failed"), logger)
        #: How long each actor took to be ready when it was started last (s).
        self.setup_s: dict[str, float] = {}
        #: Actors that are being replaced (`replacing.py`): their deaths count for nothing here.
        self.planned: set[str] = set()
        self._selector = selector
        self._logger = logger
        self._opened = opened
        self._state = world.control.word("state")
        self._turned = self._excused = time.monotonic()  # the last turn; when it was late last

    def set_policies(self) -> None:
        """Begins to count deaths anew, by the settings as they are now."""
        settings = self.world.settings
        delay_s, failures = settings.restart_backoff_max_ms / 1000, settings.boot_failures_max
        self.policies.update((name, RestartPolicy(delay_s, failures)) for name in ACTORS)

    # -- starting

    def is_ready(self, name: str) -> bool:
        """Whether the actor serves."""
        return name in self.running and self.running[name].ready

    def spawn(self, name: str) -> None:
        """Forks an actor and lets it begin.

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
        self.adopt(child)

    def adopt(self, child: Child) -> None:
        """Watches a new process, notes it in the process table, then releases its gate semaphore,
        at which it waits.
        """
        self.watch(child)
        self.due.pop(child.name, None)
        self.starts[child.name] += 1
        self.note(child.name, child.pid, ActorState.BOOTING)
        self.world.gates[child.name].release()

    def watch(self, child: Child) -> None:
        """Has `selector` report the child's readiness and its death."""
        self.running[child.name] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, child)
        if child.ready_fd >= 0:
            self._selector.register(child.ready_fd, selectors.EVENT_READ, child)

    def _put_off(self, name: str, why: str) -> None:
        """Starts an actor later, because something is short that the machine may have again soon.
        Raises GaveUp if the store has not run yet: whoever starts it can then change that.
        """
        if self._state.load() != StoreState.RUNNING:
            raise GaveUp(f"cannot start {name}: {why}; {HOW_TO_RAISE}, or free memory")
        self._logger.error("cannot start an actor now, trying again", actor_name=name, why=why)
        self.due[name] = time.monotonic() + _SHORTAGE_PAUSE_S

    def _become(self, name: str, ready_fd: int) -> None:
        """Runs the actor in the child after the fork. Never returns."""
        status = 1
        try:
            self._selector.close()
            for child in self.running.values():
                os.close(child.pidfd)
            mail.close_all(self._opened())
            keep_sessions_for(name, self.world)
            settings = self.world.settings
            configure(self.world.store_name, name, settings.log_level, settings.log_format)
            status = CLASSES[name](self.world).live(ready_fd)
        finally:
            os._exit(status)

    def note(self, name: str, pid: int, state: ActorState) -> None:
        """Writes the actor's entry of the process table."""
        self.world.control.store_process(
            ACTORS.index(name), pid, self.starts[name], int(time.time() * 1000), state
        )

    # -- watching

    def news(self, child: Child, fd: int) -> None:
        """Handles a readable descriptor of a child: it is ready, or it is dead. Raises GaveUp."""
        if fd == child.ready_fd and fd >= 0:
            if os.read(child.ready_fd, 1):
                child.ready = True
                self.setup_s[child.name] = time.monotonic() - child.started
                child.started = time.monotonic()
                self.note(child.name, child.pid, ActorState.READY)
            self._forget_ready(child)
        elif fd == child.pidfd and self.running.get(child.name) is child:
            self._bury(child)

    def turn(self) -> None:
        """What is due in each turn of the loop: kills those that hang, starts those that wait."""
        self._replace_frozen()
        self.bad_files.forget(self.running.values())
        for name in [n for n, when in self.due.items() if when <= time.monotonic()]:
            self.spawn(name)

    def patience_s(self) -> float:
        """Seconds until a start is due; infinite if none is."""
        return max(0.0, min(self.due.values()) - time.monotonic()) if self.due else float("inf")

    def _bury(self, child: Child) -> None:
        """Collects a dead actor and starts it again, at once or after a delay. Raises GaveUp."""
        code = self.reap(child)
        lived = time.monotonic() - child.started
        self.note(child.name, 0, ActorState.DEAD)
        if self.stopping or child.name in self.planned:
            return
        if code == STORAGE_FULL and not child.ready:
            why = f"no disk space for {child.name} to start: free some, then start again"
            raise GaveUp(why, code)
        if code == SHORTAGE and self._state.load() == StoreState.RUNNING:
            self._put_off(child.name, "its limit of open files, or memory, was used up")
            return
        if code == BAD_FILE and self._state.load() != StoreState.RUNNING:
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
            times = policy.max_boot_failures
            raise GaveUp(f"{child.name} failed to start {times} times (last: {said})")
        self._logger.warning(
            "actor died, replacing it", died=child.name, how=said, delay_ms=round(delay * 1000)
        )
        if delay == 0:
            self.spawn(child.name)
        else:
            self.due[child.name] = time.monotonic() + delay

    def reap(self, child: Child) -> int:
        """Collects a dead child. Returns its exit status, or the signal's number below zero."""
        del self.running[child.name]
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        if child.ready_fd >= 0:
            # The child may have become ready and died since the last turn.
            child.ready = os.read(child.ready_fd, 1) == b"1"
            self._forget_ready(child)
        child.ended = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        return child.ended

    def _forget_ready(self, child: Child) -> None:
        self._selector.unregister(child.ready_fd)
        os.close(child.ready_fd)
        child.ready_fd = -1

    def _replace_frozen(self) -> None:
        """Kills actors that have not beaten for too long. The loop then sees their death and starts
        them again. After the supervisor itself has stood still, they get the whole time once more:
        Ctrl-Z and `fg` stop and continue all of them.
        """
        limit_s = self.world.settings.heartbeat_timeout_ms / 1000
        now = time.monotonic()
        if now - self._turned > min(limit_s, limit_s / 2 + TICK_S):
            self._excused = now
        self._turned = now
        for child in self.running.values():
            beat = self.world.control.beat(child.name).load() / 1e9
            silent = now - max(beat, child.started, self._excused)
            if silent > limit_s and silent > limit_s * patience_with(child):
                self._logger.error(
                    "actor does not beat, killing it", frozen=child.name, silent_s=round(silent, 1)
                )
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                child.started = now  # it dies a moment later: not to be killed in the next turn


class Uses(NamedTuple):
    """Which descriptors of a session a process uses. `ring` stands for append's eventfd too."""

    connection: bool
    ring: bool
    bell: bool


def uses(name: str, session: Session) -> Uses:
    """What the process `name` uses of a session: all for the supervisor and the registry."""
    if name in ("supervisor", "registry"):
        return Uses(connection=True, ring=True, bell=True)
    appends = name == "append"
    mine = session.number == OWN_SESSIONS.get(name)
    rings_bell = name in RINGERS or (appends and session.ring >= 0)
    return Uses(connection=False, ring=appends or mine, bell=rings_bell)


def keep_sessions_for(name: str, world: World) -> None:
    """In the actor `name`: closes the descriptors of sessions that it does not use. They would stay
    open here after the end of the session.
    """
    for number, session in list(world.sessions.items()):
        its = uses(name, session)
        if not its.connection:
            mail.close_all([session.connection])
        if not its.ring:
            mail.close_all([fd for fd in (session.ring, session.bell) if fd >= 0])
        if session.client_bell and not its.bell:
            session.client_bell.close()
            session.client_bell = None
        if not any(its):
            del world.sessions[number]
