"""Passes what a store tells its service manager on to the real one, from the parent of store and
broker (`store_and_broker.py`).

The manager listens to its main process only, which is the parent. The store, a child of it, proves
its progress as always, and the parent adds what it alone knows: when both are ready. The socket is
abstract, so that it needs no folder; the kernel names the sender of each message.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from typing import Final

from ..shm import mail
from .notify import Notifier

_MESSAGE: Final = 4096
_CREDENTIALS: Final = struct.Struct("3i")
#: What the store may tell. Its own READY and STOPPING are the parent's to say.
_PASSED: Final = frozenset({"WATCHDOG", "EXTEND_TIMEOUT_USEC", "STATUS", "RELOADING"})
_WITH_RELOADING: Final = "MONOTONIC_USEC"
_MOST_FDS: Final = 16
#: So much is put by for a manager that does not read. What comes then is not kept.
_MOST_TO_KEEP: Final = 100
_SPACE: Final = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(_MOST_FDS * 4)


class Relay:
    """The socket that the store has as NOTIFY_SOCKET. Without a real manager there is none."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self.socket: socket.socket | None = None
        #: Whether the store reloads, and the manager waits for READY=1.
        self._reloads = False
        #: What the manager is to keep, or with None to forget, and has not read yet.
        self._to_keep: deque[tuple[str, list[int] | None]] = deque()
        if not os.environ.get("NOTIFY_SOCKET"):
            return
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind("")  # the kernel gives it a free abstract name

    @property
    def address(self) -> str:
        """NOTIFY_SOCKET for the store, "" without a manager."""
        if self.socket is None:
            return ""
        return "@" + bytes(self.socket.getsockname()[1:]).decode()

    def read(self, store_pid: int) -> None:
        """Passes on all messages of the process `store_pid` that have come."""
        assert self.socket is not None, "only a socket that is there is readable"
        while True:
            try:
                data, about, _, _ = self.socket.recvmsg(_MESSAGE, _SPACE, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            fds = _descriptors(about)
            if _sender(about) == store_pid:
                self._pass(data, fds)
            else:
                mail.close_all(fds)

    def _pass(self, data: bytes, fds: list[int]) -> None:
        lines = (line.partition("=") for line in data.decode(errors="replace").splitlines())
        fields = {name: value for name, _, value in lines}
        keeps = "FDSTORE" in fields
        if "FDNAME" in fields and len(self._to_keep) < _MOST_TO_KEEP:
            self._to_keep.append((fields["FDNAME"], fds if keeps else None))
        else:
            mail.close_all(fds)
        self._pass_kept()
        passed = {name.lower(): fields[name] for name in _PASSED & fields.keys()}
        if "RELOADING" in fields:
            self._reloads = True
            passed[_WITH_RELOADING.lower()] = fields.get(_WITH_RELOADING, "")
        elif "READY" in fields and self._reloads:
            self._reloads = False
            passed["ready"] = "1"
        if passed:
            self._notifier.send(**passed)

    def close(self) -> None:
        """In a child, which has no use for it."""
        if self.socket is not None:
            self.socket.close()
        for _, fds in self._to_keep:
            mail.close_all(fds or [])
        self._to_keep.clear()

    def _pass_kept(self) -> None:
        """Passes on what is to be kept, in order; with the next message if the manager does not
        read.
        """
        while self._to_keep:
            name, fds = self._to_keep[0]
            told = self._notifier.forget(name) if fds is None else self._notifier.keep(name, fds)
            if not told:
                return
            self._to_keep.popleft()
            mail.close_all(fds or [])


def _descriptors(about: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message."""
    fds = array.array("i")
    for level, kind, payload in about:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload[: len(payload) // 4 * 4])
    return list(fds)


def _sender(about: list[tuple[int, int, bytes]]) -> int:
    """The process that sent a message, as the kernel says; 0 if it does not."""
    for level, kind, payload in about:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid: int = _CREDENTIALS.unpack(payload[: _CREDENTIALS.size])[0]
            return pid
    return 0
