"""Processes of a server: started with a log of their own, ended in order."""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import TYPE_CHECKING

from ...leash import leashed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_START_S = 60.0
_END_S = 60.0
_EVERY_S = 0.01
_PRECISE_NS = 1000
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


def precise(command: Sequence[str]) -> list[str]:
    """The command, with threads that the kernel wakes within about 1 us of their time and not
    within 50 us.
    """
    return leashed([*command], slack_ns=_PRECISE_NS)


@contextlib.contextmanager
def running(
    what: str,
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    pipes: bool = False,
) -> Iterator[ServerProcess]:
    """A process of the server, in a process group of its own: Ctrl-C at a terminal is for the
    harness. It ends when the harness is killed.

    It writes to the log. With `pipes` its standard input and output are pipes instead, and it is
    asked to end by the closing of its input too.
    """
    with log.open("ab") as out, contextlib.ExitStack() as ends:
        process = subprocess.Popen(
            leashed([*command]),
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes else out,
            stderr=out,
            env=environment,
            process_group=0,
        )
        ends.callback(_end, process)
        yield ServerProcess(what, process, log)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
