"""Processes of a server: started with a log of their own, ended in order."""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_START_S = 60.0
_END_S = 60.0
_EVERY_S = 0.01
#: Characters of a server's log that an error shows.
_SHOWN = 2000


class ServerFailed(RuntimeError):
    """A server has ended, or does not answer: what it was, and the end of its log."""


class ServerProcess:
    """A process that runs, and its log."""

    def __init__(self, what: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._what = what
        self.process = process
        self._log = log

    def check(self) -> None:
        """Raises ServerFailed if it has ended."""
        status = self.process.poll()
        if status is not None:
            raise self.failure(f"has ended with status {status}")

    def failure(self, what: str) -> ServerFailed:
        """An error with the end of the log."""
        said = self._log.read_text(errors="replace")[-_SHOWN:].strip()
        return ServerFailed(f"{self._what} {what}" + (f"; its last words: {said}" if said else ""))

    def wait_for(self, is_ready: Callable[[], bool]) -> None:
        """Waits until it is ready. Raises ServerFailed."""
        deadline = time.monotonic() + _START_S
        while not is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise self.failure(f"is not ready after {_START_S:.0f} s")
            time.sleep(_EVERY_S)


@contextlib.contextmanager
def running(what: str, command: Sequence[str], log: Path) -> Iterator[ServerProcess]:
    """A process of the server, in a session of its own: Ctrl-C at a terminal is for the harness."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield ServerProcess(what, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
