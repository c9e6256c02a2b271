"""What the store needs of the kernel, each tried on this process alone."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import socket
from typing import TYPE_CHECKING, Final

from ...shm import sealed
from ...shm._memory import Mapping
from .findings import ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .findings import Finding

#: The number of futex_waitv is the same on all 64-bit machines.
_FUTEX_WAITV: Final = 449
_PAGE: Final = 4096
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_NEWER: Final = "use a newer kernel, or allow it in the container's seccomp profile"


def check() -> Iterator[Finding]:
    """One finding for what is needed, one for what makes the store faster."""
    needed = [name for name, attempt in _NEEDED if not _works(attempt)]
    wanted = [name for name, attempt in _WANTED if not _works(attempt)]
    about = f"Linux {os.uname().release}"
    if needed:
        yield problem("kernel", f"{about} lacks {', '.join(needed)}", _NEWER)
    else:
        yield ok("kernel", f"{about} has {', '.join(name for name, _ in _NEEDED)}")
    if wanted:
        yield warning("kernel, for speed", f"{about} lacks {', '.join(wanted)}", _NEWER)
    else:
        yield ok("kernel, for speed", f"has {', '.join(name for name, _ in _WANTED)}")


def _works(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _sealed_memory() -> None:
    os.close(sealed.create("silo-doctor", _PAGE))


def _process_descriptor() -> None:
    os.close(os.pidfd_open(os.getpid()))


def _event_descriptor() -> None:
    os.close(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))


def _packets() -> None:
    with contextlib.ExitStack() as ends:
        for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET):
            ends.enter_context(end)


def _epoll() -> None:
    select.epoll().close()


def _futex_waitv() -> None:
    """With no word to wait for a kernel that knows the call refuses its arguments."""
    if _LIBC.syscall(_FUTEX_WAITV, None, 0, 0, None, 0) < 0:
        error = ctypes.get_errno()
        if error != errno.EINVAL:
            raise OSError(error, os.strerror(error))


def _populate() -> None:
    fd = sealed.create("silo-doctor", _PAGE)
    try:
        Mapping(fd, 0, _PAGE).populate(0, _PAGE)
    finally:
        os.close(fd)


_NEEDED: Final = (
    ("memfd with seals", _sealed_memory),
    ("pidfd", _process_descriptor),
    ("eventfd", _event_descriptor),
    ("epoll", _epoll),
    ("SOCK_SEQPACKET", _packets),
)
_WANTED: Final = (
    ("futex_waitv (Linux 5.16)", _futex_waitv),
    ("MADV_POPULATE_WRITE (Linux 5.14)", _populate),
)
