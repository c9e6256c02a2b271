"""Many clients that connect at the same time, and stores that do not answer."""

from __future__ import annotations

import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess

from silomq import Admin, IllegalArgument, IllegalType, Producer, StoreClosed
from silomq.client.session import Connection
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import StoreError

CLIENTS = 40


def fill_queue(store: Path) -> list[socket.socket]:
    """Connects until the kernel's queue of connections that nobody has accepted is full."""
    ends = []
    while True:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends.append(end)
        end.setblocking(False)
        try:
            end.connect(str(store / SOCKET))
        except BlockingIOError:
            return ends


def test_clients_wait_while_the_queue_of_connections_is_full(tmp_path: Path) -> None:
    """The kernel answers EAGAIN then: clients try again until their time-out."""
    with StoreProcess(tmp_path / "s", heartbeat_timeout_ms=60_000, max_sessions=100) as store:
        store.kill("registry", signal.SIGSTOP)
        waiting = fill_queue(store.path)
        with pytest.raises(StoreClosed, match=r"accepted no connection for .* Try again"):
            Connection(store.path, timeout_s=0.3)
        errors: list[StoreError] = []
        connected: list[Connection] = []

        def connect() -> None:
            try:
                connected.append(Connection(store.path, timeout_s=60.0))
            except StoreClosed as error:
                errors.append(error)

        threads = [threading.Thread(target=connect) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        store.kill("registry", signal.SIGCONT)
        for end in waiting:
            end.close()
        for thread in threads:
            thread.join()
        assert (len(connected), errors) == (CLIENTS, [])
        for connection in connected:
            connection.close()


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for place, why in (
        (tmp_path / "nothing", "there is no such folder"),
        (file, "it is a file"),
        (tmp_path, "no store runs there"),
        (loop, "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("a\nb", r"cannot connect to a\\nb: there is no such folder"),
    ):
        with pytest.raises(StoreClosed, match=why):
            Producer(place)
    for wrong in ("", "a\0b", "\ud800", "x" * 5000):
        with pytest.raises(IllegalArgument, match="store"):
            Admin(wrong)
    for odd in (5, None, b"bytes", [str(tmp_path)]):
        with pytest.raises(IllegalType, match="store must be"):
            Admin(odd)  # type: ignore[arg-type] # on purpose
