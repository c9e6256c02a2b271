"""A stand-in for the service manager: the other end of sd_notify, with systemd's rules.

It starts a store as systemd would: with NOTIFY_SOCKET, WATCHDOG_USEC, and the descriptors of socket
units and of its descriptor store (LISTEN_FDS). It ends a start that takes longer than it has said,
and a store that does not feed its watchdog.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import sys
import time
from typing import TYPE_CHECKING, Self

from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

#: What a message may have at most: systemd reads as much.
_MESSAGE = 4096
Message = dict[str, str]
_PYTHON = (sys.executable, "-P")


class ServiceManager:
    """A notification socket below `folder`. `messages` are all that came, each with its time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.messages: list[tuple[float, Message]] = []
        #: The descriptors that were given to be kept, by name.
        self.kept: dict[str, list[int]] = {}

    def environ(self, *, watchdog_s: float = 0.0, keeps: int = 0) -> dict[str, str]:
        """The variables of a unit with this WatchdogSec, and FileDescriptorStoreMax."""
        found = {"NOTIFY_SOCKET": str(self.path)}
        if watchdog_s:
            found["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        if keeps:
            found["FDSTORE"] = str(keeps)
        return found

    def next(self, timeout_s: float) -> Message:
        """The next message. Raises TimeoutError."""
        self.socket.settimeout(max(0.001, timeout_s))
        data, rights, _, _ = self.socket.recvmsg(_MESSAGE, socket.CMSG_SPACE(4 * 253))
        fds = array.array("i")
        for level, kind, payload in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[: len(payload) // 4 * 4])
        message = dict(line.split("=", 1) for line in data.decode().splitlines())
        self._keep(message, list(fds))
        self.messages.append((time.monotonic(), message))
        return message

    def _keep(self, message: Message, fds: list[int]) -> None:
        name = message.get("FDNAME", "stored")
        if message.get("FDSTORE") == "1":
            self.kept.setdefault(name, []).extend(fds)
        else:
            assert not fds, "descriptors come with FDSTORE=1 alone"
        if message.get("FDSTOREREMOVE") == "1":
            for fd in self.kept.pop(name, []):
                os.close(fd)

    def await_message(self, true: Callable[[Message], object], timeout_s: float) -> Message:
        """The next message for which `true` is so. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self.next(deadline - time.monotonic())
            if true(message):
                return message

    def await_key(self, key: str, timeout_s: float = 30.0) -> Message:
        """The next message with this key."""
        return self.await_message(lambda message: key in message, timeout_s)

    def start_lasts(self, timeout_s: float) -> bool:
        """Listens until READY=1. False when a start with this time-out, extended as it was said,
        takes too long.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self.next(deadline - time.monotonic())
            except TimeoutError:
                return False
            if "READY" in message:
                return True
            if usec := message.get("EXTEND_TIMEOUT_USEC"):
                deadline = max(deadline, time.monotonic() + int(usec) / 1e6)

    def watchdog_expires(self, watchdog_s: float, within_s: float) -> bool:
        """Whether the store does not feed its watchdog for `watchdog_s`, at some time within
        `within_s`.
        """
        end = time.monotonic() + within_s
        deadline = time.monotonic() + watchdog_s
        while deadline < end:
            try:
                message = self.next(deadline - time.monotonic())
            except TimeoutError:
                return True
            if message.get("WATCHDOG") == "1":
                deadline = time.monotonic() + watchdog_s
        return False

    def forget(self) -> None:
        """Drops what has come so far."""
        with contextlib.suppress(TimeoutError):
            while True:
                self.next(0.0)

    def close(self) -> None:
        self.socket.close()
        for fds in self.kept.values():
            for fd in fds:
                os.close(fd)
        self.kept.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SocketUnit:
    """A socket unit: the store's socket, made before the store and kept while it does not run."""

    def __init__(self, store: Path) -> None:
        self.path = store / SOCKET
        store.mkdir(parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(self.path))
        self.socket.listen(64)

    @property
    def clients_wait(self) -> bool:
        """Whether a connection waits in the queue: then systemd starts the service."""
        queue = select.poll()
        queue.register(self.socket, select.POLLIN)
        return bool(queue.poll(0))

    def close(self) -> None:
        self.socket.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


#: Puts descriptors in the places from 3 on, sets the variables for its own process, and becomes the
#: command.
_PASS = """
import fcntl, os, sys
fds, names, command = sys.argv[1].split(), sys.argv[2], sys.argv[3:]
away = [fcntl.fcntl(int(fd), fcntl.F_DUPFD_CLOEXEC, 99) for fd in fds]
for place, fd in enumerate(away, 3):
    os.dup2(fd, place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
os.execv(command[0], command)
"""


def passing(fds: Sequence[int], names: str, command: Sequence[str]) -> list[str]:
    """A command that runs another one as systemd does for a service with socket units. It must
    inherit the descriptors.
    """
    return [*_PYTHON, "-c", _PASS, " ".join(map(str, fds)), names, *command]
