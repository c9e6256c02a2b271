"""The state of a running store as one process hands it to another: a document, and descriptors.

The document is JSON. It names descriptors by their number in a list. To a new process of the same
code version they go through a socket; after an exec they are open already.

Shared memory, semaphores and folders have names, so the receiver opens them itself.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Mapping as MappingOf
from typing import Any, Final

import msgspec

from ..actors.actor import Session, World
from ..actors.descriptors import Descriptors
from ..conf.schema import kinds
from ..conf.settings import Settings
from ..shm import mail, segments
from ..shm.bell import BellEnds
from ..shm.control import ACTORS
from ..shm.history import METRICS_SEGMENT
from ..shm.protocol.changes import Step
from ..shm.protocol.sessions import (
    Attach,
    AttachBell,
    ChangeAsked,
    Detach,
    DetachBell,
    Gone,
)
from ..store.disk.paths import StoreFolders
from ..store.errors import StoreError
from .children import uses
from .live_settings import SettingsSource

#: The kernel passes at most 253 descriptors with one packet.
_AT_ONCE: Final = 200


SessionMessage = Attach | AttachBell | Detach | DetachBell | Gone


class HandedSession(msgspec.Struct):
    """A session. Descriptors are numbers in the list; -1 for one that the receiver does not use."""

    number: int
    index: int
    capacity: int
    uid: int
    closing: bool
    ring: int = -1
    bell: int = -1
    connection: int = -1
    client_bell: tuple[int, int] | None = None


class HandedWorld(msgspec.Struct):
    """What all processes of a store share (`actors/actor.py`)."""

    settings: dict[str, Any]
    folder: str
    store_name: str
    store_id: int
    listener: int
    mail: list[int]
    sessions: list[HandedSession]
    report: dict[str, Any]
    supervisor: int
    limit: int
    inherited: int


class HandedActor(msgspec.Struct, tag="actor"):
    """The store for a process that becomes the actor `name`."""

    name: str
    world: HandedWorld


class HandedChild(msgspec.Struct):
    """An actor that serves: when it became ready (monotonic s), how long that took (s), and how
    often it was started.
    """

    name: str
    pid: int
    started: float
    setup_s: float
    starts: int


class HandedMail(msgspec.Struct):
    """A message that waits for room in the socket of the process `box`."""

    box: str
    message: SessionMessage
    fds: list[int]


class HandedChange(msgspec.Struct):
    """A change that somebody asked for, and the sockets of those who listen."""

    asked: ChangeAsked
    said: list[Step]
    ends: list[int]


class HandedStore(msgspec.Struct, tag="store"):
    """All that a supervisor has. `change` is the change of code, and `changes` are those that wait.
    `stalls_ms` are those so far; the supervisor has stood still since `since` (monotonic s).
    `fds` are the descriptors, after an exec.
    """

    world: HandedWorld
    lock: int
    children: list[HandedChild]
    mail: list[HandedMail]
    change: HandedChange
    changes: list[HandedChange]
    source: SettingsSource
    keeps_code: str
    hang_up_stops: bool
    hang_up: bool
    stalls_ms: dict[str, float]
    since: float
    #: The memory of what the service manager keeps (`keeping.py`), [] without it.
    kept: list[int] = []
    fds: list[int] = []


class Passed:
    """The descriptors that go along with a document, each once."""

    def __init__(self) -> None:
        self.fds: list[int] = []
        self._numbers: dict[int, int] = {}

    def add(self, fd: int) -> int:
        """The number of a descriptor in the list; -1 stays -1."""
        if fd < 0:
            return -1
        if fd not in self._numbers:
            self._numbers[fd] = len(self.fds)
            self.fds.append(fd)
        return self._numbers[fd]


def _mail_ends(world: World) -> list[socket.socket]:
    pairs = (world.append_mail, world.registry_mail, world.reput_mail, world.flush_mail)
    return [end for pair in pairs for end in pair]


def pack_world(world: World, passed: Passed, name: str) -> HandedWorld:
    """What the process `name` needs of the store."""
    packed = (_pack_session(session, passed, name) for session in world.sessions.values())
    return HandedWorld(
        settings=msgspec.to_builtins(world.settings, enc_hook=str),
        folder=os.fspath(world.folders.root.path),
        store_name=world.store_name,
        store_id=world.store_id,
        listener=passed.add(world.listener.fileno()),
        mail=[passed.add(end.fileno()) for end in _mail_ends(world)],
        sessions=[session for session in packed if session is not None],
        report=world.report,
        supervisor=world.supervisor,
        limit=world.descriptors.limit,
        inherited=world.descriptors.inherited,
    )


def _pack_session(session: Session, passed: Passed, name: str) -> HandedSession | None:
    """None for a session of which the process `name` uses nothing."""
    its = uses(name, session)
    if not any(its):
        return None
    bell = session.client_bell
    return HandedSession(
        session.number,
        session.index,
        session.capacity,
        session.uid,
        session.closing,
        ring=passed.add(session.ring if its.ring else -1),
        bell=passed.add(session.bell if its.ring else -1),
        connection=passed.add(session.connection if its.connection else -1),
        client_bell=(passed.add(bell.page), passed.add(bell.store)) if bell and its.bell else None,
    )


def unpack_world(handed: HandedWorld, fds: MappingOf[int, int]) -> World:
    """The store, in the process that it was handed to. Raises SettingError, StoreError, OSError."""
    folders = StoreFolders(handed.folder)
    if segments.store_identity(handed.folder) != handed.store_id:
        folders.close()
        raise StoreError(f"{handed.folder} is another folder than when the store was started")
    ends = [socket.socket(fileno=fds[number]) for number in handed.mail]
    return World(
        settings=read_settings(handed.settings),
        store_name=handed.store_name,
        store_id=handed.store_id,
        control_memory=segments.map_segment(handed.store_id, "control"),
        table_memory=segments.map_segment(handed.store_id, "table"),
        metrics_memory=segments.map_segment(handed.store_id, METRICS_SEGMENT),
        folders=folders,
        allocate_semaphore=segments.open_semaphore(handed.store_id, "allocate"),
        gates={n: segments.open_semaphore(handed.store_id, f"gate-{n}") for n in ACTORS},
        listener=socket.socket(fileno=fds[handed.listener]),
        append_mail=(ends[0], ends[1]),
        registry_mail=(ends[2], ends[3]),
        reput_mail=(ends[4], ends[5]),
        flush_mail=(ends[6], ends[7]),
        sessions={session.number: _unpack_session(session, fds) for session in handed.sessions},
        report=handed.report,
        supervisor=handed.supervisor,
        descriptors=Descriptors(handed.limit, handed.inherited),
    )


def _unpack_session(handed: HandedSession, fds: MappingOf[int, int]) -> Session:
    bell = handed.client_bell
    return Session(
        handed.number,
        handed.index,
        fds.get(handed.ring, -1),
        handed.capacity,
        fds.get(handed.bell, -1),
        fds.get(handed.connection, -1),
        handed.uid,
        handed.closing,
        client_bell=BellEnds(fds[bell[0]], fds[bell[1]]) if bell else None,
    )


def read_settings(values: MappingOf[str, Any]) -> Settings:
    """The settings that are in force, as this release has them: one that it does not know is left
    out, and one that is new has its default. Raises SettingError.
    """
    known = kinds()
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value  # JSON has no tuples
        for name, value in values.items()
        if name in known
    }
    return Settings(**given)


# -- through a socket


def send(end: socket.socket, document: bytes, fds: list[int], within_s: float) -> None:
    """Sends a document with its descriptors. Raises OSError, TimeoutError."""
    page = os.memfd_create("silomq-handover", os.MFD_CLOEXEC)
    try:
        write_all(page, document)
        end.settimeout(within_s)
        mail.send_packet(end, b"%d" % len(fds), [page])
        for at in range(0, len(fds), _AT_ONCE):
            mail.send_packet(end, b"+", fds[at : at + _AT_ONCE])
    finally:
        os.close(page)


def receive(end: socket.socket) -> tuple[bytes, dict[int, int]] | None:
    """The document, and the descriptors by their number. None if the sender has gone instead.
    Raises OSError for want of descriptors.
    """
    count, first = _receive_some(end)
    if not count:
        return None
    (page,) = first
    document = read_all(page)
    os.close(page)
    fds: list[int] = []
    while len(fds) < int(count):
        data, more = _receive_some(end)
        if not data:
            return None
        fds += more
    return document, dict(enumerate(fds))


def _receive_some(end: socket.socket) -> tuple[bytes, list[int]]:
    space = socket.CMSG_SPACE(_AT_ONCE * 4)
    data, about, flags, _ = end.recvmsg(64, space, socket.MSG_CMSG_CLOEXEC)
    if flags & socket.MSG_CTRUNC:
        raise OSError("descriptors were cut off: this process may not open so many files")
    fds = array.array("i")
    for level, kind, payload in about:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload)
    return data, list(fds)


def write_all(fd: int, data: bytes) -> None:
    """Writes all of `data` into memory. Raises OSError."""
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at:], at)


def read_all(fd: int) -> bytes:
    """All that is in a piece of memory."""
    return os.pread(fd, os.fstat(fd).st_size, 0)
