"""The socket at which clients reach a store: of its own, or given by the service manager.

**A socket of its own** is made when recovery is over, and removed when the store stops.

**Socket activation** (sd_listen_fds(3)): the service manager makes the socket before the store, and
keeps it while the store stops or is replaced. Clients that connect meanwhile wait in its queue.
The manager says by LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES which descriptors it passes. The one
socket that is taken must lie in the store's folder, or no client would find the store. All else is
refused: a store that ignored what it is given would leave clients waiting for ever.

The address tells both apart, also for clients: a store binds by the descriptor of its folder
(`made_by_a_store`). A store never removes a socket that a manager holds.
"""

from __future__ import annotations

import contextlib
import grp
import os
import socket
from typing import Final

from ..actors.registry import passed_descriptors
from ..conf.digits import number
from ..conf.printable import printable
from ..shm import mail
from ..store.disk.paths import SOCKET, StoreFolders, made_by_a_store
from ..store.errors import StoreError

#: The first descriptor that a manager passes.
_FIRST: Final = 3
#: More is no number of descriptors.
_MOST: Final = 1 << 20
_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
#: __SO_ACCEPTCON in /proc/net/unix: a socket that listens.
_LISTENS: Final = 1 << 16
#: Longer parts of what was passed are not shown.
_SHOWN: Final = 200


class WrongSocket(StoreError):
    """A socket was passed that this store cannot use, or the store's socket is a manager's."""


def passed() -> list[tuple[int, str]]:
    """The descriptors that the service manager passes to this process, with their names. No process
    that this one starts gets them, nor the variables. Raises WrongSocket.
    """
    found = {name: os.environ.pop(name, "") for name in _VARIABLES}
    if found["LISTEN_PID"] != str(os.getpid()):
        return []  # for another process, or nothing was passed
    count = number(found["LISTEN_FDS"], _MOST)
    if count is None:
        shown = _shown(found["LISTEN_FDS"])
        raise WrongSocket(f"LISTEN_FDS={shown}: it must be a number of descriptors")
    names = found["LISTEN_FDNAMES"].split(":")
    names += [""] * count
    fds = list(range(_FIRST, _FIRST + count))
    for fd in fds:
        try:
            os.set_inheritable(fd, False)  # noqa: FBT003 - os's own signature
        except OSError as error:
            raise WrongSocket(
                f"LISTEN_FDS={count}: descriptor {fd} is not open; a service manager passes all "
                "that it counts"
            ) from error
    return list(zip(fds, names, strict=False))


def pass_on() -> None:
    """In a forked child that is to be the store: what was passed to the parent is the child's."""
    if os.environ.get("LISTEN_PID") == str(os.getppid()):
        os.environ["LISTEN_PID"] = str(os.getpid())


def drop() -> None:
    """Closes what was passed to this process, or to its parent: it is another child's, which says
    what is wrong with it.
    """
    if os.environ.get("LISTEN_PID") == str(os.getppid()):
        pass_on()
    with contextlib.suppress(WrongSocket):
        for fd, _ in passed():
            os.close(fd)


def given(fds: list[tuple[int, str]], folders: StoreFolders, group: str) -> socket.socket | None:
    """The socket among what the service manager passes, None if it passes none. With `group` its
    members get rights to it. Raises WrongSocket.
    """
    if not fds:
        return None
    if len(fds) > 1:
        names = ", ".join(f"{fd} ({_shown(name)})" for fd, name in fds)
        raise WrongSocket(
            f"the service manager passes {len(fds)} descriptors: {names}; a store takes one "
            f"socket, that of {_right(folders)}"
        )
    ((fd, name),) = fds
    why = _wrong(fd, folders)
    if why:
        raise WrongSocket(
            f"the service manager passes descriptor {fd} ({_shown(name)}), {why}; a store takes "
            f"the socket of {_right(folders)}"
        )
    listener = socket.socket(fileno=fd)
    listener.setblocking(False)  # noqa: FBT003 - socket's own signature
    if group:
        try:
            folders.root.share(grp.getgrnam(group).gr_gid, 0o660, SOCKET)
        except OSError as error:
            raise WrongSocket(
                f'socket_group = "{group}": the socket is the service manager\'s, and this user '
                f"cannot give it to the group ({error.strerror}); set SocketUser={os.geteuid()} in "
                "its unit, or SocketGroup there and no socket_group here"
            ) from error
    return listener


def _right(folders: StoreFolders) -> str:
    return f"ListenSequentialPacket={os.path.realpath(folders.root.path)}/{SOCKET}"


def _wrong(fd: int, folders: StoreFolders) -> str:
    """Why a descriptor is not this store's listening socket, "" if it is."""
    try:
        end = socket.socket(fileno=os.dup(fd))
    except OSError:
        return "which is no socket"
    with end:
        if end.family != socket.AF_UNIX or end.type != socket.SOCK_SEQPACKET:
            return f"a socket of another kind ({end.family.name}, {end.type.name})"
        if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "a socket that does not listen"
        address = end.getsockname()
    if not isinstance(address, str) or not _leads_to(address, folders):
        return f"a socket at {_shown(os.fsdecode(address))}, which is not in this store's folder"
    if SOCKET not in folders.root.names():
        return f"a socket whose file {SOCKET} is gone, so that no client finds it"
    return ""


def _leads_to(address: str, folders: StoreFolders) -> bool:
    folder, name = os.path.split(address)
    if name != SOCKET or not address.startswith("/"):
        return False
    here, there = os.fstat(folders.root.fd), None
    with contextlib.suppress(OSError):
        there = os.stat(folder)
    return there is not None and os.path.samestat(here, there)


def make(folders: StoreFolders, group: str) -> socket.socket:
    """Makes the store's own socket in its folder. An old one is replaced: this process has the
    lock, so no other store listens on it. Raises WrongSocket if a service manager does.
    """
    if SOCKET in folders.root.names() and _is_a_managers(folders):
        raise WrongSocket(
            f"a service manager holds {folders.root.path}/{SOCKET} for this store (silomq.socket), "
            "but has not passed it to this process: start the store by the manager (systemctl "
            "start silomq), or stop that socket first"
        )
    with contextlib.suppress(FileNotFoundError):
        folders.root.unlink(SOCKET)
    # The address of a Unix socket holds 107 bytes. A path through the folder's descriptor always
    # fits.
    path = f"/proc/self/fd/{folders.root.fd}/{SOCKET}"
    with contextlib.ExitStack() as undo:
        listener = undo.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        )
        listener.bind(path)
        gid = grp.getgrnam(group).gr_gid if group else -1
        folders.root.share(gid, 0o660, SOCKET)
        passed_descriptors.refuse(listener)
        listener.listen(128)
        undo.pop_all()
    return listener


def _is_a_managers(folders: StoreFolders) -> bool:
    """Whether another process than a store listens at the store's socket.

    A connection would tell too, but the manager would start a store for it.
    """
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        next(file)
        for line in file:
            words = line.rstrip("\n").split(" ", 7)
            if line.endswith(f"/{SOCKET}\n") and int(words[3], 16) & _LISTENS:
                address = line[line.index(" /") + 1 : -1]
                if not made_by_a_store(address) and _leads_to(address, folders):
                    return True
    return False


def close(listener: socket.socket, folders: StoreFolders) -> None:
    """Closes the socket of a store that stops, and removes its own."""
    own = made_by_a_store(listener.getsockname())
    listener.close()
    if own:
        with contextlib.suppress(FileNotFoundError):
            folders.root.unlink(SOCKET)


def turn_away(fd: int) -> None:
    """Ends a socket that listens, whichever other processes have it too. Clients that wait at it
    see their connections end, and no more can connect.
    """
    mail.hang_up(fd)
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as end:
        end.setblocking(False)  # noqa: FBT003 - socket's own signature
        while True:  # until an error says that nobody waits
            end.accept()[0].close()


def _shown(text: str) -> str:
    return printable(text[:_SHOWN])
