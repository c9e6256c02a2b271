"""A process of the code that lies on the disk now, started beside the running store.

It is an interpreter of its own: it imports everything anew. It says which layouts it has, and waits
to be told what to do (`successor.py` is its side). Until then its stderr is kept, because the last
line of that says why it does not come up.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from ..actors.parent import die_with_parent
from ..shm import mail
from . import handover
from .child import Child, fork

MODULE: Final = "silomq.supervisor.successor"
#: How long new code may take to import everything, or to read the state (s).
_PATIENCE_S: Final = 60.0
#: How long the state may take to pass through the socket (s). A process stands still meanwhile.
_SENT_WITHIN_S: Final = 5.0
_LOOK_S: Final = 0.02
_SHOWN: Final = 300
_STDERR: Final = 2
#: The longest line that is looked for at the end of stderr.
_TAIL: Final = 4000
_CANNOT_RUN: Final = 127
T = TypeVar("T")


class Hello(msgspec.Struct):
    """The first message of new code: its release, where it lies, and its layouts."""

    release: str
    place: str
    marks: dict[str, str]


class Verdict(msgspec.Struct):
    """What new code says of the state that was handed to it: why it cannot use it, "" if it can."""

    why: str


class NotUp(Exception):
    """New code does not come up. The text says why."""


def interpreter() -> list[str]:
    """The command line that runs new code, up to its arguments."""
    isolated = ["-I"] if sys.flags.isolated else []
    return [sys.executable, "-P", *isolated, "-m", MODULE]


class Candidate:
    """One such process, started as `name`. `turn` is a turn of the supervisor's loop.

    Raises OSError if it cannot be started.
    """

    def __init__(self, name: str, turn: Callable[[float], None]) -> None:
        self._turn = turn
        with contextlib.ExitStack() as undo:
            self._errors = os.memfd_create("silomq-errors", os.MFD_CLOEXEC)
            undo.callback(os.close, self._errors)
            self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(self._end.close)
            with theirs:
                parent, end = os.getpid(), theirs.fileno()
                self.child = fork(name, functools.partial(_become, parent, end, self._errors))
            undo.pop_all()

    @property
    def fds(self) -> list[int]:
        """The supervisor's descriptors of it, which no other child needs."""
        return [fd for fd in (self._errors, self._end.fileno()) if fd >= 0]

    def hello(self) -> Hello:
        """What it says first. Raises NotUp."""
        return self._receive(Hello, "import its modules")

    def verdict(self, document: bytes, fds: list[int]) -> Verdict:
        """What it says of this state. Raises NotUp."""
        try:
            handover.send(self._end, document, fds, _SENT_WITHIN_S)
        except OSError as error:
            raise NotUp(f"the new code does not take the state: {self._last_line(error)}") from None
        return self._receive(Verdict, "read the state")

    def begin(self, document: bytes, fds: list[int]) -> Child | None:
        """Has it become the actor that this state is for. Returns None if it has gone."""
        try:
            handover.send(self._end, document, fds, _SENT_WITHIN_S)
        except OSError:
            self.end()
            return None
        self._close()
        self.child.started = time.monotonic()
        return self.child

    def end(self) -> None:
        """Ends it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.child.pidfd, signal.SIGKILL)
        os.waitpid(self.child.pid, 0)
        mail.close_all([self.child.pidfd, self.child.ready_fd])
        self._close()

    def _close(self) -> None:
        self._end.close()
        mail.close_all([self._errors])
        self._errors = -1

    def _receive(self, kind: type[T], what: str) -> T:
        decoder = msgspec.json.Decoder(kind)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._end.setblocking(False)  # noqa: FBT003 - socket's own signature
                said, _ = mail.receive(self._end, decoder)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NotUp(f"the new code did not {what} within {_PATIENCE_S:.0f} s") from None
                self._turn(_LOOK_S)
                continue
            except mail.NotAMessage as error:
                raise NotUp(f"the new code says what this code does not know: {error}") from None
            except OSError as error:
                raise NotUp(f"the new code does not start: {self._last_line(error)}") from None
            if said is None:
                raise NotUp(f"the new code does not start: {self._last_line()}")
            return said

    def _last_line(self, error: OSError | None = None) -> str:
        """The last line that it wrote to stderr."""
        size = os.fstat(self._errors).st_size
        text = os.pread(self._errors, _TAIL, max(0, size - _TAIL)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:_SHOWN] if lines else str(error or "it ends without a word")


def _become(parent: int, end: int, errors: int, _name: str, ready_fd: int) -> None:
    """Runs new code in the forked child. Never returns."""
    try:
        die_with_parent(parent)
        stderr = os.dup(_STDERR)
        os.dup2(errors, _STDERR)
        for fd in (end, ready_fd, stderr):
            os.set_inheritable(fd, True)  # noqa: FBT003 - os's own signature
        arguments = [*interpreter(), "wait", str(end), str(ready_fd), str(stderr)]
        os.execv(sys.executable, arguments)  # noqa: S606 - no shell is wanted
    except BaseException as error:  # noqa: BLE001 - nothing may go on in this child
        os.write(errors, f"cannot run {sys.executable}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(_CANNOT_RUN)
