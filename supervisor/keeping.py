"""What outlives a killed supervisor, in the service manager's descriptor store.

When a supervisor dies, so do all its actors. The store's memory in /dev/shm, its files, and the
mappings of clients stay as they are: as after the death of each single actor. Only descriptors
would be lost with the last process: the sessions' rings, bells and connections. So the supervisor
gives a duplicate of each to the service manager (sd_pid_notify_with_fds(3)), and describes them in
a document. The manager passes all of them to the next supervisor, which goes on where the dead one
stopped (`resuming.py`). No client sees more than a pause, and what lies in a ring is appended.

What is kept, by name:

=========================  ==================================================================
name                       what
=========================  ==================================================================
silomq-kept-state-0, -1    the document, in two pieces of memory that are written by turns
silomq-kept-mail-0 to -7   the sockets between supervisor and actors, with the mail in them
silomq-kept-listener       the listening socket, unless a socket unit holds it
silomq-kept-N              ring, eventfd and connection of the session N, as far as it has them
silomq-kept-N-bell-I       page and socket of its bell; I is the page's inode
=========================  ==================================================================

The document speaks only of sessions that the manager has been given. One that has ended may still
be in it when the supervisor is killed: then something of it is missing, or its client has gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final, Self

import msgspec

from ..actors.actor import Session, World
from ..conf.digits import number
from ..conf.logging import get_logger
from ..shm._checksum import crc32c
from ..store.disk.paths import made_by_a_store
from .broker import Broker
from .handover import HandedWorld, Passed, pack_world, read_all, write_all
from .layouts import marks
from .notify import Notifier

PREFIX: Final = "silomq-kept-"
STATES: Final = (f"{PREFIX}state-0", f"{PREFIX}state-1")
LISTENER: Final = f"{PREFIX}listener"
#: How many descriptors the manager keeps (FileDescriptorStoreMax). The unit says it, and systemd
#: does from 254 on.
VARIABLE: Final = "FDSTORE"
#: A store that has run so long (s) is sound: earlier deaths of its supervisor count no more.
CALM_S: Final = 60.0
#: A manager that did not read is left alone for so long (s).
_PAUSE_S: Final = 1.0
_CRC: Final = 8
#: More is no number of descriptors.
_MOST_KEPT: Final = 2**32


class KeptStore(msgspec.Struct):
    """The document. `world` names descriptors by number, and `keys` says what each number is.
    `names` are all in the manager's store, and `run_stamp` is that of the control block. `resumed`
    counts the supervisors in a row that have died before they had run for `CALM_S`.
    """

    sequence: int
    resumed: int
    run_stamp: int
    marks: dict[str, str]
    world: HandedWorld
    keys: list[str]
    names: list[str]


def fds_of(session: Session) -> dict[str, dict[str, int]]:
    """What a session has, by the name under which it is kept: kind -> descriptor."""
    kinds = (("ring", session.ring), ("eventfd", session.bell), ("connection", session.connection))
    found = {f"{PREFIX}{session.number}": {kind: fd for kind, fd in kinds if fd >= 0}}
    if session.client_bell is not None:
        page, end = session.client_bell.page, session.client_bell.store
        name = f"{PREFIX}{session.number}-bell-{os.fstat(page).st_ino}"
        found[name] = {"page": page, "stream": end}
    return found


def fds_of_store(world: World, *, own_listener: bool) -> dict[str, dict[str, int]]:
    """What the store itself has, in the same form."""
    pairs = (world.append_mail, world.registry_mail, world.reput_mail, world.flush_mail)
    ends = [end for pair in pairs for end in pair]
    found = {f"{PREFIX}mail-{at}": {"connection": end.fileno()} for at, end in enumerate(ends)}
    if own_listener:
        found[LISTENER] = {"connection": world.listener.fileno()}
    return found


def key(name: str, kind: str) -> str:
    """What a descriptor is, in `KeptStore.keys`."""
    return f"{name} {kind}"


def read_state(pages: Iterable[int]) -> KeptStore | None:
    """The newest document that is whole; None without one: the store has stopped, or the document
    is of another release.
    """
    found = []
    for page in pages:
        data = read_all(page)
        try:
            if int(data[:_CRC], 16) == crc32c(data[_CRC:]):
                found.append(msgspec.json.decode(data[_CRC:], type=KeptStore))
        except (ValueError, msgspec.MsgspecError):
            continue
    return max(found, key=lambda state: state.sequence, default=None)


def encode(state: KeptStore) -> bytes:
    """The document: the CRC-32C of its JSON in eight hexadecimal digits, then the JSON."""
    data = msgspec.json.encode(state)
    return b"%08x" % crc32c(data) + data


def empty(pages: Iterable[int]) -> None:
    """Has nobody go on with this document."""
    for page in pages:
        os.ftruncate(page, 0)


class Keeps(msgspec.Struct, frozen=True):
    """What the manager keeps when a supervisor begins: `stored` is still so, and `stale` is to be
    taken back. `pages` are the memory of the document, () for new ones.
    """

    pages: tuple[int, ...] = ()
    stored: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    resumed: int = 0
    sequence: int = 0

    @classmethod
    def handed(cls, pages: list[int]) -> Self:
        """What new code gets from the code before it (`handover.py`)."""
        state = read_state(pages)
        if state is None:
            return cls(tuple(pages))
        return cls(
            tuple(pages), frozenset(state.names), resumed=state.resumed, sequence=state.sequence
        )


class Keeper:
    """Keeps the manager's descriptor store as the world is. Without one every call does nothing.

    `before` is what the supervisor before this one has left.
    """

    def __init__(self, world: World, broker: Broker, notifier: Notifier, before: Keeps) -> None:
        most = number(os.environ.get(VARIABLE, ""), _MOST_KEPT)
        self._most = most if most and notifier.is_heard else 0
        self._world = world
        self._broker = broker
        self._notifier = notifier
        self._own_listener = made_by_a_store(world.listener.getsockname())
        self._stored = dict.fromkeys(before.stored, 0)
        self._stale = list(before.stale)
        self._resumed = before.resumed
        self._sequence = before.sequence
        self._marks = marks()
        self._calm_at = time.monotonic() + CALM_S
        self._again_at = 0.0
        self._behind = True
        self._is_full = False
        self.pages = before.pages
        if self._most and not self.pages:
            self.pages = tuple(os.memfd_create(name, os.MFD_CLOEXEC) for name in STATES)

    def turn(self) -> None:
        """Brings the manager's store up to date, if something has changed."""
        if not self._most:
            return
        now = time.monotonic()
        if self._resumed and now > self._calm_at:
            self._resumed, self._behind = 0, True
        if (self._broker.changed or self._behind) and now >= self._again_at:
            self._broker.changed = False
            self._behind = not self._update()
            if self._behind:
                self._again_at = time.monotonic() + _PAUSE_S

    def _update(self) -> bool:
        """Takes back what has ended, gives what is new, writes the document. False if the manager
        does not read.
        """
        while self._stale:
            if not self._notifier.forget(self._stale[-1]):
                return False
            self._stale.pop()
        wanted = dict(zip(STATES, ({"page": page} for page in self.pages), strict=True))
        wanted |= fds_of_store(self._world, own_listener=self._own_listener)
        for session in self._world.sessions.values():
            wanted |= fds_of(session)
        heard = True
        for name in [name for name in self._stored if name not in wanted]:
            heard = heard and self._notifier.forget(name)
            if heard:
                del self._stored[name]
        heard = heard and self._give(wanted)
        self._write({name: fds for name, fds in wanted.items() if name in self._stored})
        return heard

    def _give(self, wanted: dict[str, dict[str, int]]) -> bool:
        count = sum(self._stored.values())
        for name, fds in wanted.items():
            if name in self._stored:
                self._stored[name] = len(fds)
                continue
            if count + len(fds) > self._most:
                self._say_full()
                return True
            if not self._notifier.keep(name, list(fds.values())):
                return False
            self._stored[name] = len(fds)
            count += len(fds)
        return True

    def _say_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            get_logger().warning(
                "the service manager keeps no more descriptors: further sessions end if the "
                "supervisor is killed", most=self._most,
                advice="raise FileDescriptorStoreMax and FDSTORE in the unit",
            )  # fmt: skip

    def _write(self, kept: dict[str, dict[str, int]]) -> None:
        """Writes the document, in the place of the older one."""
        passed = Passed()
        world = pack_world(self._world, passed, "supervisor")
        names = {n for n, s in self._world.sessions.items() if all(x in kept for x in fds_of(s))}
        world.sessions = [session for session in world.sessions if session.number in names]
        keys = {fd: key(name, kind) for name, fds in kept.items() for kind, fd in fds.items()}
        keys.setdefault(self._world.listener.fileno(), LISTENER)
        self._sequence += 1
        state = KeptStore(
            self._sequence,
            self._resumed,
            self._world.control.load("run_stamp"),
            self._marks,
            world,
            keys=[keys.get(fd, "") for fd in passed.fds],
            names=list(self._stored),
        )
        page = self.pages[self._sequence % len(self.pages)]
        os.ftruncate(page, 0)
        write_all(page, encode(state))

    def end(self) -> None:
        """The store stops: nothing is to be gone on with."""
        empty(self.pages)
        for name in (*self._stale, *self._stored):
            if not self._notifier.forget(name):
                break
