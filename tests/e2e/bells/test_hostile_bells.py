"""What a client may do to its own bell harms nobody else."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, Producer
from silomq.client.session import Connection
from silomq.shm import bell
from silomq.shm._memory import Mapping
from silomq.shm.protocol.requests import AskBell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("hostile") / "store") as found:
        with Admin(found.path) as admin:
            admin.create_topic("t", 4)
        yield found


class Hostile:
    """A session with a ring whose bell belongs to the test: page and socket."""

    def __init__(self, store: StoreProcess) -> None:
        self.link = Connection(store.path, 65536)
        _, (page, self.fd) = self.link.ask(AskBell())
        self.page = memoryview(Mapping(page, 0, bell.SIZE))
        self.page_fd = page

    def arm(self, value: int) -> None:
        self.page[0:8] = (value % 2**64).to_bytes(8, "little")

    def close(self) -> None:
        self.link.drop([self.fd, self.page_fd])
        self.link.close()


def never_reads(client: Hostile, over: threading.Event) -> None:
    client.page[64:192] = b"\xff" * 128
    number = 0
    while not over.is_set():
        number += 1
        client.arm(number << 8 | 255)


def scribbles(client: Hostile, over: threading.Event) -> None:
    chance = random.Random(1)
    while not over.is_set():
        at = chance.randrange(0, 192, 8)
        client.page[at : at + 8] = chance.randbytes(8)


def closes_its_end(client: Hostile, over: threading.Event) -> None:
    client.page[64:192] = b"\xff" * 128
    client.link.drop([client.fd])
    never_reads(client, over)


def hangs_up(client: Hostile, over: threading.Event) -> None:
    with socket.socket(fileno=os.dup(client.fd)) as end:
        end.shutdown(socket.SHUT_RDWR)
    never_reads(client, over)


def makes_its_page_small(client: Hostile, over: threading.Event) -> None:
    for size in (0, 1, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(client.page_fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(client.page_fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    scribbles(client, over)


WAYS = (never_reads, scribbles, closes_its_end, hangs_up, makes_its_page_small)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_other_clients_go_on(
    store: StoreProcess, way: Callable[[Hostile, threading.Event], None]
) -> None:
    pids = store.pids()
    over = threading.Event()
    client = Hostile(store)
    thread = threading.Thread(target=way, args=(client, over))
    thread.start()
    try:
        with (
            Producer(store.path) as producer,
            Consumer(store.path, "t", offset="latest") as consumer,
        ):
            consumer.fileno()
            for number in range(500):
                assert producer.send("t", b"%d" % number, timeout=5).status.name == "PUT_OK"
            found = 0
            deadline = time.monotonic() + 10
            while found < 500:
                assert time.monotonic() < deadline
                found += len(consumer.poll(500, 1.0))
    finally:
        over.set()
        thread.join()
        client.close()
    assert store.pids() == pids
    eventually(lambda: store.control.load("sessions") == 0, "its session is over")
