"""Forks Python programs, for `support.warm`: `python -P warm_program.py SOCKET`.

It has imported what the store, its broker and `silo` need, so a program that it forks begins at
once. It ends when the other end of its socket is closed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import runpy
import socket
import sys
import time
from typing import TextIO

import msgspec
import setproctitle

#: The packages that are imported before the first fork. The rest, Spark's and the benchmarks', is
#: imported by those who need it.
_PRELOADED = ("actors", "broker", "cli.running", "cli.offline", "names", "supervisor")
#: The most descriptors that an order can bring: Linux passes 253 at once.
MOST_FDS = 250
_MOST_BYTES = 1 << 20
_NO_PROGRAMS = ("__main__", "successor")


class Order(msgspec.Struct):
    """A program to fork: a script, or else a module. `fds` are the numbers that it has its
    descriptors under.
    """

    program: str
    arguments: list[str]
    environ: dict[str, str]
    folder: str
    umask: int
    new_session: bool
    fds: list[int]


def preload() -> None:
    """Imports the modules of _PRELOADED."""
    for name in _PRELOADED:
        package = importlib.import_module(f"silomq.{name}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.rpartition(".")[2] not in _NO_PROGRAMS:
                importlib.import_module(found.name)
    # It finds where the arguments are: a child that has another environment could not.
    setproctitle.setproctitle("silomq tests: forks programs")
    gc.collect()
    gc.freeze()  # otherwise every child would copy the pages of these objects


def serve(link: socket.socket) -> tuple[Order, list[int]] | None:
    """Forks a program for each order, and answers with its process number. Returns the order and
    its descriptors in the program that is to run, and None here at the end.
    """
    while True:
        data, fds, _, _ = socket.recv_fds(link, _MOST_BYTES, MOST_FDS)
        if not data:
            return None
        number, end = os.pipe()
        go, hold = os.pipe()
        if (child := os.fork()) == 0:
            if (grandchild := os.fork()) == 0:
                os.close(hold)
                os.read(go, 1)  # until both others have closed their ends
                return msgspec.json.decode(data, type=Order), fds
            os.write(end, b"%d" % grandchild)
            os._exit(0)
        os.waitpid(child, 0)  # from now on the other end of the socket is the parent
        link.send(os.read(number, 20))
        for fd in (number, end, go, hold, *fds):
            os.close(fd)


def become(order: Order, fds: list[int]) -> None:
    """Makes of this process what a new one would be."""
    if order.new_session:
        os.setsid()
    os.chdir(order.folder)
    os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.environ)
    time.tzset()
    _take(fds, order.fds)
    sys.argv = [order.program, *order.arguments]
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)


def _stream(fd: int, before: TextIO) -> TextIO:
    """A standard stream as Python makes it at its start, with the encoding that `before` has."""
    assert isinstance(before, io.TextIOWrapper)
    raw = io.FileIO(fd, "rb" if fd == 0 else "wb", closefd=False)
    raw.name = before.name
    through = before.write_through  # PYTHONUNBUFFERED
    buffer = raw if through else io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        before.encoding,
        before.errors,
        newline="\n",
        line_buffering=not through and (fd == 2 or raw.isatty()),
        write_through=through,
    )


def _take(fds: list[int], numbers: list[int]) -> None:
    """Gives the descriptors `fds` these numbers, and closes all others."""
    high = max([*fds, *numbers]) + 1
    for fd in fds:
        os.dup2(fd, high + fd)
    for fd, number in zip(fds, numbers, strict=True):
        os.dup2(high + fd, number)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) not in numbers:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(int(entry))


def main() -> None:
    """Serves; and runs a program, in the process that is forked for it."""
    link = socket.socket(fileno=int(sys.argv[1]))
    preload()
    found = serve(link)
    if found is None:
        return
    link.detach()
    become(*found)
    program = found[0].program
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        sys.modules.pop(program, None)
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
