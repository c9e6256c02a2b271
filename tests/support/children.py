"""Forked children, for tests: what they do, what they have open, and that they end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WAIT_S = 60.0


def open_files(pid: int | str = "self") -> set[tuple[int, str]]:
    """(number, what it leads to) of each descriptor of a process."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.add((int(name), os.readlink(f"/proc/{pid}/fd/{name}")))
    return found


@contextlib.contextmanager
def forked(work: Callable[[], str]) -> Iterator[tuple[int, Callable[[], str]]]:
    """A child made by `os.fork` that does `work`. Yields its number, and a function that waits for
    what `work` returned. Then the child waits until the context ends.
    """
    read_fd, write_fd = os.pipe()
    stay_fd, go_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go_fd)
            said = "ok " + work()
        except BaseException:  # noqa: BLE001 # the child must not go on as a test
            said = traceback.format_exc()
        os.write(write_fd, said.encode()[:60_000])
        os.close(write_fd)
        os.read(stay_fd, 1)
        os._exit(0)
    os.close(write_fd)
    os.close(stay_fd)

    def result() -> str:
        said = b""
        while True:
            ready, _, _ = select.select([read_fd], [], [], _WAIT_S)
            assert ready, "the child hangs"
            part = os.read(read_fd, 65536)
            if not part:
                break
            said += part
        assert said.startswith(b"ok "), said.decode()
        return said[3:].decode()

    try:
        yield pid, result
    finally:
        os.close(read_fd)
        os.close(go_fd)
        if not _ended(pid):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _ended(pid: int) -> bool:
    """Whether the child ends by itself, now that nothing holds it up."""
    fd = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([fd], [], [], 10.0)
    finally:
        os.close(fd)
    if ready:
        os.waitpid(pid, 0)
    return bool(ready)


def in_child(work: Callable[[], str], how: str = "os.fork") -> str:
    """What `work` returns in a forked child. Fails with the child's traceback if it raises."""
    if how == "os.fork":
        with forked(work) as (_, result):
            return result()
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)

    def run() -> None:
        try:
            theirs.send("ok " + work())
        except BaseException:  # noqa: BLE001 # told to the parent
            theirs.send(traceback.format_exc())

    process = context.Process(target=run)
    process.start()
    theirs.close()
    try:
        assert mine.poll(_WAIT_S), "the child hangs"
        said: str = mine.recv()
    finally:
        process.join(10.0)
        if process.is_alive():
            process.kill()
            process.join()
        mine.close()
    assert said.startswith("ok "), said
    return said[3:]
