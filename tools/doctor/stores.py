"""The store that is looked at, the other stores of this machine, and what dead ones have left in
shared memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shlex
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
import posix_ipc
import psutil

from ...shm import segments
from ...shm._memory import Mapping
from ...shm.control import SIZE, Control, LayoutError, StoreState
from ...store.disk.files import Folder
from ...store.disk.paths import LOCK
from .findings import ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .findings import Finding

#: A mapping for writing of a store's control block, as /proc/PID/maps has it.
_WRITABLE: Final = re.compile(rb" rw.s .*?/dev/shm/silomq-([0-9a-f]{16})-control$", re.MULTILINE)
#: struct flock: type, whence, start, length, pid.
_FLOCK: Final = struct.Struct("@hhqqi4x")
#: So many other stores are named.
_MOST: Final = 10


class Machine(msgspec.Struct, frozen=True):
    """The processes of living stores by the store's identity; each store's objects in /dev/shm; and
    whether this user may look at all processes.
    """

    living: dict[int, list[int]]
    objects: dict[int, list[str]]
    sees_all: bool

    def is_alive(self, store_id: int) -> bool:
        """Whether a process of the store runs."""
        return store_id in self.living


def look() -> Machine:
    """Looks at all processes, and at the names in /dev/shm."""
    living: dict[int, list[int]] = {}
    sees_all = True
    for pid in sorted(psutil.pids()):
        try:
            with open(f"/proc/{pid}/maps", "rb") as file:
                found = {int(digits, 16) for digits in _WRITABLE.findall(file.read())}
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            sees_all = False
            continue
        for store_id in found:
            living.setdefault(store_id, []).append(pid)
    return Machine(living, segments.objects_of_stores(), sees_all)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Folder | None]:
    """The store's folder; None if there is none, or this user may not open it."""
    try:
        folder = Folder.open(path)
    except OSError:
        yield None
        return
    with folder:
        yield folder


class StoreHere(msgspec.Struct, frozen=True):
    """The store that is looked at. `identity` is None without a folder. `runs` says that a process
    holds its lock; `pid` is that process, 0 if another pid namespace hides it. `control` is its
    control block, if it has one that this user and this version can read.
    """

    path: str
    identity: int | None = None
    runs: bool = False
    pid: int = 0
    control: Control | None = None
    trouble: str = ""

    @classmethod
    def look(cls, path: str, root: Folder | None, machine: Machine) -> Self:
        """Looks at the lock and the shared memory of the store in the open folder `root`."""
        if root is None:
            return cls(path)
        identity = segments.store_identity(path)
        runs, pid, trouble = False, 0, ""
        try:
            runs, pid = _holder(root)
        except PermissionError:
            trouble = "this user may not read its lock"
            runs = machine.is_alive(identity)
        control = None
        try:
            control = _control(identity)
        except LayoutError as error:
            trouble = str(error)
        except (posix_ipc.PermissionsError, PermissionError):
            trouble = "this user may not read its shared memory"
        return cls(path, identity, runs, pid, control, trouble)

    def finding(self) -> Finding:
        """Whether the store runs, and who has it."""
        shown = f"{self.path}"
        if self.identity is None:
            return ok("store", f"{shown} cannot be opened, or does not exist: no store runs there")
        if self.trouble:
            how = (
                "run silo doctor as the store's user or root, with the version that runs the store"
            )
            runs = "runs" if self.runs else "does not run"
            return warning("store", f"{shown} {runs}; {self.trouble}", how)
        if not self.runs:
            return ok("store", f"{shown} does not run")
        if self.control is None:
            return problem(
                "store",
                f"{shown} is in use by {_named(self.pid)}, which is no store of this version",
                "stop that process before a store is started here",
            )
        state = StoreState(self.control.load("state")).name.lower()
        return ok("store", f"{shown} is {state}, {_named(self.pid)}")


def _holder(root: Folder) -> tuple[bool, int]:
    """Whether a process holds the store's lock, and which one."""
    try:
        with root.file(LOCK) as fd:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except FileNotFoundError:
        return False, 0
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise PermissionError(error.errno, error.strerror, LOCK) from error
        raise
    return kind != fcntl.F_UNLCK, max(0, pid) if kind != fcntl.F_UNLCK else 0


def _control(store_id: int) -> Control | None:
    """The store's control block, None without one. Raises LayoutError for another version's."""
    try:
        fd = segments.open_segment(store_id, "control")
    except posix_ipc.ExistentialError:
        return None
    try:
        control = Control(Mapping(fd, 0, SIZE, writable=False))
    except (OSError, ValueError) as error:
        raise LayoutError(f"its control block cannot be mapped ({error})") from error
    finally:
        os.close(fd)
    control.check()
    return control


def _named(pid: int) -> str:
    if not pid:
        return "a process that cannot be seen from here (another container?)"
    try:
        return f"pid {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"pid {pid}"


def check_leftovers(machine: Machine, mine: StoreHere) -> Iterator[Finding]:
    """What dead stores have left in /dev/shm."""
    clean = True
    for store_id, names in sorted(machine.objects.items()):
        is_mine = store_id == mine.identity
        if machine.is_alive(store_id) or (is_mine and mine.runs):
            continue
        clean = False
        size, owner = _size_and_owner(names)
        what = f"{len(names)} objects of {size:,} bytes (silomq-{store_id:016x}-*)"
        if is_mine:
            advice = "start the store: it takes over what they hold, and removes them"
            yield warning("leftovers", f"this store was killed and left {what}", advice)
        elif not machine.sees_all:
            advice = "run silo doctor as root to see whether its store runs"
            yield warning("leftovers", f"user {owner} has {what}", advice)
        else:
            yield warning(
                "leftovers",
                f"a dead store of user {owner} left {what}",
                "start that store, which takes over what they hold; if its folder is gone: "
                f"rm /dev/shm/silomq-{store_id:016x}-* /dev/shm/sem.silomq-{store_id:016x}-*",
            )
    if clean:
        yield ok("leftovers", "no dead store has left anything in /dev/shm")


def bytes_of(names: list[str]) -> int:
    """The size of objects in /dev/shm."""
    return _size_and_owner(names)[0]


def _size_and_owner(names: list[str]) -> tuple[int, int]:
    size = owner = 0
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(segments.SHM / name)
            size, owner = size + found.st_size, found.st_uid
    return size, owner


def check_others(machine: Machine, mine: StoreHere, path: str) -> Iterator[Finding]:
    """The other stores that run on this machine."""
    others = {one: pids for one, pids in machine.living.items() if one != mine.identity}
    if not others:
        seen = "" if machine.sees_all else " that this user can see"
        yield ok("other stores", f"no other store{seen} runs on this machine")
        return
    for store_id, pids in list(others.items())[:_MOST]:
        folder = _folder_of(store_id, pids)
        what = f"{folder or 'one'} runs (pid {pids[0]})"
        if folder and _same_disk(folder, path):
            advice = "give each a disk, or lower the disk_* ratios: each removes its own files only"
            yield warning("other stores", f"{what} on the same disk", advice)
        else:
            yield ok("other stores", what)
    if len(others) > _MOST:
        yield ok("other stores", f"{len(others) - _MOST} more run")


def _folder_of(store_id: int, pids: list[int]) -> str:
    """The folder of a living store: that of a lock which one of its processes has open."""
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            for file in psutil.Process(pid).open_files():
                folder, name = os.path.split(file.path)
                if name == LOCK and segments.store_identity(folder) == store_id:
                    return folder
    return ""


def _same_disk(one: str, other: str) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(one).st_dev == os.stat(existing(other)).st_dev
    return False


def existing(path: str) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    found = Path(os.path.abspath(path))
    while not os.path.lexists(found) and found != found.parent:
        found = found.parent
    return found


def quoted(path: object) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))
