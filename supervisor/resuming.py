"""Goes on with a store whose supervisor was killed, from what the service manager has kept of it
(`keeping.py`).

The new supervisor takes the world as the dead one left it. It starts every actor, and each takes
over from a killed one, as it always does. Nothing has to be recovered.

That is done only while it is certain. The whole store ran, and its memory and its files are as it
left them. The code has the same layouts. The store has not died like this again and again.
Otherwise it starts as without a service manager: it closes what was kept, so that its clients see
their connections end, and recovers from its files.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Collection, Iterable
from typing import Final

import posix_ipc

from ..actors.actor import OWN_SESSIONS, World
from ..actors.descriptors import Descriptors
from ..conf.logging import get_logger
from ..conf.settings import SettingError, Settings
from ..shm import mail
from ..shm.control import ACTORS, Control, StoreState, process_number
from ..store.commitlog.log import CommitLog
from ..store.disk.paths import SOCKET, StoreFolders
from ..store.recovery.pool_recovery import old_control
from ..store.recovery.shared_progress import is_where_it_was, log_is_as_it_was
from .broker import Broker, descriptors_of, hang_up
from .handover import HandedSession, read_settings, unpack_world
from .keeping import LISTENER, PREFIX, STATES, Keeps, empty, key, read_state
from .layouts import differences, marks
from .listener import turn_away

#: After so many deaths in a row the store starts anew: its memory may be the cause.
_MOST_RESUMED: Final = 3


class Kept:
    """What the manager passes of a dead supervisor, out of all descriptors that it passes."""

    def __init__(self, passed: Iterable[tuple[int, str]]) -> None:
        self.others: list[tuple[int, str]] = []
        self.names: set[str] = set()
        self._fds: dict[str, int] = {}
        for fd, name in passed:
            if not name.startswith(PREFIX):
                self.others.append((fd, name))
                continue
            self.names.add(name)
            what = key(name, _kind(fd))
            if what in self._fds:  # given twice
                os.close(fd)
            else:
                self._fds[what] = fd
        found = [self._fds.pop(key(name, "page"), -1) for name in STATES]
        #: The memory of the document, once a store has been kept.
        self.pages = tuple(fd for fd in found if fd >= 0)
        if len(self.pages) < len(STATES):
            mail.close_all(list(self.pages))
            self.pages = ()
        self.state = read_state(self.pages)

    @property
    def count(self) -> int:
        """How many descriptors of this process were kept."""
        return len(self._fds) + len(self.pages)

    def why_not(self, folders: StoreFolders, store_id: int, *, given: bool) -> str:
        """Why the store must start anew, "" if it need not. `given` says whether a socket unit
        passes the listening socket.
        """
        state = self.state
        if state is None:
            return "nothing was kept"
        handed = state.world
        differing = differences(marks(), state.marks)
        control = old_control(store_id, folders.root.about(".").owner)
        if handed.store_id != store_id:
            return "what was kept is another store's"
        if differing:
            return f"the code is another one than before: {', '.join(differing[:4])}"
        if state.resumed >= _MOST_RESUMED:
            return f"the supervisor has died {state.resumed} times in a row"
        if control is None or control.load("state") != StoreState.RUNNING:
            return "the store was not running, or its memory in /dev/shm is gone"
        if control.load("run_stamp") != state.run_stamp:
            return "the store has been started by somebody else since"
        if control.load("flush_error"):
            return "a sync of the log has failed"
        try:
            settings = read_settings(handed.settings)
        except SettingError as error:
            return f"a setting of the store is none of this code: {error}"
        if not _files_are_as_they_were(folders, control, settings):
            return "files of the store have changed since"
        if given == (LISTENER in self.names) or SOCKET not in folders.root.names():
            return "the socket is another one than before"
        wanted = {state.keys[number] for number in handed.mail} | {
            state.keys[number]
            for session in handed.sessions
            if session.number in OWN_SESSIONS.values()
            for number in _numbers(session)
        }
        if not wanted <= self._fds.keys():
            return "descriptors are missing"
        return ""

    def world(self, given: socket.socket | None, descriptors: Descriptors) -> World:
        """The store as it was. A session of which something is missing is left out: its client sees
        its connection end. Raises StoreError, OSError.

        Should this process fail now, the next one starts anew.
        """
        assert self.state is not None, "asked before: why_not"
        empty(self.pages)
        handed, keys = self.state.world, self.state.keys
        fds = {n: self._fds[what] for n, what in enumerate(keys) if what in self._fds}
        if given is not None:
            fds[handed.listener] = given.detach()
        else:
            fds[handed.listener] = self._fds[key(LISTENER, "connection")]
        newest: dict[int, HandedSession] = {}
        for session in sorted(handed.sessions, key=lambda session: session.number):
            if all(number in fds for number in _numbers(session)):
                newest[session.index] = session
        handed.sessions = list(newest.values())
        handed.supervisor = os.getpid()
        handed.limit, handed.inherited = descriptors.limit, descriptors.inherited
        used = {handed.listener, *handed.mail}
        used.update(number for session in handed.sessions for number in _numbers(session))
        in_use = {fds[number] for number in used}
        self._let_go(but=in_use)
        world = unpack_world(handed, fds)
        for gate in world.gates.values():
            _close_gate(gate)
        return world

    def keeps(self) -> Keeps:
        """What the manager has for the supervisor that begins now."""
        names = frozenset(self.names)
        if self.state is None:
            return Keeps(stale=names)
        return Keeps(
            self.pages, names, resumed=self.state.resumed + 1, sequence=self.state.sequence
        )

    def drop(self) -> None:
        """Closes what was kept, for a store that starts anew. Clients see their connections end."""
        self._let_go(but=set())
        mail.close_all(list(self.pages))
        self.pages, self.state = (), None

    def _let_go(self, but: Collection[int]) -> None:
        """Closes all that is not in use. The manager still has it: so its sockets are shut down."""
        for what, fd in self._fds.items():
            if fd not in but:
                if what == key(LISTENER, "connection"):
                    turn_away(fd)
                elif what.endswith((" connection", " stream")):
                    mail.hang_up(fd)
                os.close(fd)
        self._fds.clear()


def _files_are_as_they_were(folders: StoreFolders, control: Control, settings: Settings) -> bool:
    log = CommitLog(folders, settings.mapped_file_size_commit_log)
    filed = "committed" if settings.transient_store_pool_enable else "wrote"
    try:
        return is_where_it_was(folders, control) and log_is_as_it_was(log, control, filed)
    except OSError:
        return False


def _kind(fd: int) -> str:
    """What a descriptor is, among those of one name."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        with socket.socket(fileno=os.dup(fd)) as end:
            return "stream" if end.type == socket.SOCK_STREAM else "connection"
    target = os.readlink(f"/proc/self/fd/{fd}")
    if target.startswith("/memfd:silomq-ring"):
        return "ring"
    return "page" if target.startswith("/memfd:") else "eventfd"


def _numbers(session: HandedSession) -> list[int]:
    """The descriptors of a session, as numbers in the document."""
    own = (session.ring, session.bell, session.connection, *(session.client_bell or ()))
    return [number for number in own if number >= 0]


def _close_gate(gate: posix_ipc.Semaphore) -> None:
    """Has the next actor wait at its gate: the supervisor may have died when it had opened it."""
    try:
        while True:
            gate.acquire(0)
    except posix_ipc.BusyError:
        return


def starts_so_far(control: Control) -> dict[str, int]:
    """How often each actor was started."""
    return {name: control.process(process_number(name))[1] for name in ACTORS}


def catch_up(broker: Broker) -> None:
    """Reads the mail that the dead supervisor has not read, before the first actor is started."""
    world = broker.world
    broker.read(broker.from_append)
    broker.read(broker.from_registry)
    # The registry may have given the place of an ended session away, and its mail about that end
    # be lost.
    by_age = [session for _, session in sorted(world.sessions.items())]
    newest = {session.index: session.number for session in by_age}
    for session in by_age:
        if newest[session.index] != session.number:
            hang_up(session)
            mail.close_all(descriptors_of(session))
            del world.sessions[session.number]
    get_logger().warning(
        "going on with the store of a killed supervisor: its sessions were kept",
        sessions=len(world.sessions) - len(OWN_SESSIONS),
    )
