"""A store as a service whose descriptors the service manager keeps (FileDescriptorStoreMax)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

import psutil
from support.harness import WAIT_S, StoreProcess, eventually, kill_now, lives
from support.service_manager import passing

from silomq.actors.actor import OWN_SESSIONS
from silomq.supervisor.keeping import STATES, read_state

if TYPE_CHECKING:
    from pathlib import Path

    from support.service_manager import ServiceManager, SocketUnit

#: FileDescriptorStoreMax of the unit.
MOST = 1024


class KeptStore(StoreProcess):
    """Such a store. `manager` is its alone. It listens in a thread of its own while this is open,
    and a start passes all that it keeps. With `unit` that is also the socket of a socket unit.
    """

    def __init__(
        self,
        folder: Path,
        manager: ServiceManager,
        *,
        most: int = MOST,
        unit: SocketUnit | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(folder, environ=manager.environ(keeps=most), **settings)
        self.manager = manager
        self.unit = unit
        #: While it is set the manager reads nothing.
        self.pauses = threading.Event()
        self._ends = threading.Event()
        self._listens = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        while not self._ends.is_set():
            if self.pauses.is_set():
                time.sleep(0.01)
                continue
            try:
                self.manager.next(0.05)
            except TimeoutError:
                continue

    @property
    def command(self) -> list[str]:
        """With all that is kept, in another order than it came."""
        passed = [(fd, name) for name, fds in self.manager.kept.items() for fd in fds][::-1]
        if self.unit is not None:
            passed.append((self.unit.socket.fileno(), "silomq.socket"))
        self.pass_fds = tuple(fd for fd, _ in passed)
        command = super().command
        if not passed:
            return command
        return passing(self.pass_fds, ":".join(name for _, name in passed), command)

    def die(self) -> None:
        """Kills the supervisor, and waits until its actors are dead as well."""
        actors = list(self.pids().values())
        kill_now(psutil.Process(actors[0]).ppid())
        self.running.wait(WAIT_S)
        eventually(lambda: not any(lives(pid) for pid in actors), "the actors are dead")

    def await_kept(self, sessions: int) -> None:
        """Waits until the manager keeps so many sessions of clients."""
        eventually(lambda: self.kept_sessions() == sessions, f"{sessions} sessions are kept")

    def await_calm(self) -> None:
        """Waits until the deaths of earlier supervisors do not count any more."""
        pages = [self.manager.kept[name][0] for name in STATES]

        def is_calm() -> bool:
            state = read_state(pages)
            return state is not None and not state.resumed

        eventually(is_calm, "the store is calm")

    def kept_sessions(self) -> int:
        """How many sessions of clients the manager keeps; -1 while the document does not say so."""
        numbers = {name.removeprefix("silomq-kept-") for name in self.manager.kept}
        kept = {int(number) for number in numbers if number.isdigit()}
        state = read_state([fd for name in STATES for fd in self.manager.kept.get(name, [])])
        told = set() if state is None else {one.number for one in state.world.sessions}
        return len(kept - set(OWN_SESSIONS.values())) if kept == told else -1

    def __enter__(self) -> Self:
        self._listens.start()
        super().__enter__()
        return self

    def clean_up(self) -> None:
        try:
            super().clean_up()
        finally:
            self._ends.set()
            self._listens.join()
