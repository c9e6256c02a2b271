"""Passes what a store tells its service manager on to the real one, from the parent of store and
broker (`store_and_broker.py`).

The manager listens to its main process only, which is the parent. The store, a child of it, proves
its progress as always, and the parent adds what it alone knows: when both are ready. The socket is
abstract, so that it needs no folder; the kernel names the sender of each message.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from .notify import Notifier

_MESSAGE: Final = 4096
_CREDENTIALS: Final = struct.Struct("3i")
#: What the store may tell. Its own READY and STOPPING are the parent's to say.
_PASSED: Final = frozenset({"WATCHDOG", "EXTEND_TIMEOUT_USEC", "STATUS", "RELOADING"})
_WITH_RELOADING: Final = "MONOTONIC_USEC"


class Relay:
    """The socket that the store has as NOTIFY_SOCKET. Without a real manager there is none."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self.socket: socket.socket | None = None
        #: Whether the store reloads, and the manager waits for READY=1.
        self._reloads = False
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
                data, about, _, _ = self.socket.recvmsg(
                    _MESSAGE, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
            except BlockingIOError:
                return
            if _sender(about) == store_pid:
                self._pass(data)

    def _pass(self, data: bytes) -> None:
        lines = (line.partition("=") for line in data.decode(errors="replace").splitlines())
        fields = {name: value for name, _, value in lines}
        passed = {name.lower(): fields[name] for name in _PASSED & fields.keys()}
        if "RELOADING" in fields:
            self._reloads = True
            passed[_WITH_RELOADING.lower()] = fields.get(_WITH_RELOADING, "")
        elif "READY" in fields and self._reloads:
            self._reloads = False
            passed["ready"] = "1"
        if passed:
            self._notifier.send(**passed)


def _sender(about: list[tuple[int, int, bytes]]) -> int:
    """The process that sent a message, as the kernel says; 0 if it does not."""
    for level, kind, payload in about:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid: int = _CREDENTIALS.unpack(payload[: _CREDENTIALS.size])[0]
            return pid
    return 0
