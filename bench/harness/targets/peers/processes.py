"""Servers of peers as processes: started, awaited, ended."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_READY_S = 60.0
_END_S = 20.0
_EVERY_S = 0.01
#: Characters of a server's log that are shown with an error.
_SHOWN = 2000


class ServerFailed(RuntimeError):
    """A peer's server has ended, or does not answer: its command and its last words."""


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def precise(command: list[str]) -> list[str]:
    """The command, with threads that the kernel wakes within about 1 us of their time and not
    within 50 us.
    """
    return ["sh", "-c", 'echo 1000 >/proc/$$/timerslack_ns; exec "$@"', "sh", *command]


@contextlib.contextmanager
def running(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that writes to `server.log` in its folder. It is asked to end by SIGTERM, and if it
    has a pipe as standard input by its closing.
    """
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            env=environment, start_new_session=True,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextlib.contextmanager
def logged(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server whose standard output goes to `server.log` too."""
    wrapped = ["sh", "-c", 'exec "$@" >&2', "sh", *command]
    with running(wrapped, folder, environment) as process:
        yield process


def failure(process: subprocess.Popen[bytes], folder: Path, what: str) -> ServerFailed:
    """An error with the server's last words."""
    said = (folder / "server.log").read_text(errors="replace")[-_SHOWN:].strip()
    return ServerFailed(f"{process.args!r} {what}; its last words: {said}")


def wait_until(process: subprocess.Popen[bytes], folder: Path, true: Callable[[], bool]) -> None:
    """Waits until a server is ready. Raises ServerFailed."""
    deadline = time.monotonic() + _READY_S
    while not true():
        if process.poll() is not None:
            raise failure(process, folder, f"has ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise failure(process, folder, f"is not ready after {_READY_S:.0f} s")
        time.sleep(_EVERY_S)


def listens(port: int) -> bool:
    """Whether a server accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
