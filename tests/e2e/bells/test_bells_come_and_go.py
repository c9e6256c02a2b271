"""Bells are made when they are asked for, once for each session, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING

import pytest
from support.bells import is_readable
from support.harness import StoreProcess, eventually
from support.open_files import nothing_stays_open

from silomq import Admin, Consumer, GroupConsumer, IllegalMessage, Producer
from silomq.client.session import Connection
from silomq.shm.control import ACTORS
from silomq.shm.protocol.requests import AskBell

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 200


def idle_descriptors(store: StoreProcess) -> dict[str, int]:
    """`descriptors` without any session: the least of some looks, because each process opens a file
    for a moment now and then.
    """
    eventually(lambda: store.control.load("sessions") == 0, "all sessions are over")
    store.await_beat("registry")  # it has read what the supervisor says of the last one
    looks = []
    for _ in range(20):
        looks.append(descriptors(store))
        time.sleep(0.01)
    return {name: min(look[name] for look in looks) for name in looks[0]}


def descriptors(store: StoreProcess) -> dict[str, int]:
    """How many descriptors each process of the store has open."""
    pids = {"supervisor": store.running.pid, **store.pids()}
    return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()}


def await_as_before(store: StoreProcess, before: dict[str, int]) -> None:
    """Waits until each process has open what it had before."""
    with contextlib.suppress(AssertionError):
        eventually(lambda: descriptors(store) == before, "the descriptors", 10)
    assert descriptors(store) == before


def test_many_sessions_leave_no_descriptor(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)
        with Producer(store.path) as producer, Consumer(store.path, "t") as consumer:
            producer.send("t", b"x")
            consumer.fileno()
        before = idle_descriptors(store)
        with nothing_stays_open():
            for number in range(ROUNDS):
                client = Producer(store.path) if number % 2 else Consumer(store.path, "t")
                client.fileno()
                if number % 3 == 0:
                    client.poll()
                if number % 50 == 49:
                    store.replace(("append", "reput", "flush", "registry")[number // 50])
                client.close()
        await_as_before(store, before)


def test_all_bells_at_once(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", max_sessions=ROUNDS + 8) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)
        before = idle_descriptors(store)
        with contextlib.ExitStack() as opened:
            clients = [opened.enter_context(Consumer(store.path, "t")) for _ in range(ROUNDS)]
            fds = [client.fileno() for client in clients]
            for client, fd in zip(clients, fds, strict=True):
                while is_readable(fd):
                    client.poll()
            wanted = {name: before[name] + ROUNDS for name in ("reput", "flush")}
            eventually(lambda: descriptors(store).items() >= wanted.items(), "one for each")
            store.replace("clean")
            eventually(lambda: descriptors(store)["clean"] == before["clean"], "it rings none")
            with Producer(store.path) as producer:
                producer.send("t", b"x")
            for client, fd in zip(clients, fds, strict=True):
                assert is_readable(fd, 10.0)
                assert len(client.poll()) == 1
        await_as_before(store, before)


def test_a_session_has_one_bell(tmp_path: Path) -> None:
    """Also when its client asks twice, as it does when the registry was replaced."""
    with StoreProcess(tmp_path / "store") as store:
        link = Connection(store.path)
        asked = [link.ask(AskBell())[1] for _ in range(2)]
        inodes = {tuple(os.fstat(fd).st_ino for fd in fds) for fds in asked}
        assert len(inodes) == 1
        store.replace("registry")
        _, fds = link.ask(AskBell())
        assert is_readable(fds[1], 10.0)
        eventually(lambda: is_over(asked[0][1]), "the first one is replaced")
        assert not is_over(fds[1])
        for each in (*asked, fds):
            link.drop(each)
        link.close()


def is_over(fd: int) -> bool:
    """Whether the store has hung up. Takes the rings."""
    while is_readable(fd):
        if not os.read(fd, 64):
            return True
    return False


def test_who_asks_for_no_bell_gets_none(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)
        before = idle_descriptors(store)
        with (
            Producer(store.path) as producer,
            Consumer(store.path, "t") as consumer,
            GroupConsumer(store.path, "g", "t", start="earliest") as member,
        ):
            producer.send("t", b"x")
            assert len(consumer.poll(1, 10.0)) == len(member.poll(1, 10.0)) == 1
            # Connections, rings and eventfds, as without bells.
            wanted = {**dict.fromkeys(ACTORS, 0), "append": 2, "registry": 3 + 2}

            def more() -> dict[str, int]:
                now = descriptors(store)
                return {name: now[name] - before[name] for name in ACTORS}

            with contextlib.suppress(AssertionError):  # each opens a file now and then
                eventually(lambda: more() == wanted, "no bell came", 10)
            assert more() == wanted


def all_descriptors(producers: list[Producer]) -> list[int]:
    return [producer.fileno() for producer in producers]


def test_a_bell_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Sending goes on without it, also with `await`."""

    class Limited(StoreProcess):
        @property
        def command(self) -> list[str]:
            return ["/bin/sh", "-c", 'ulimit -n 96 && exec "$@"', "sh", *super().command]

    store = Limited(tmp_path / "store")
    with store, contextlib.ExitStack() as opened:
        producers = [opened.enter_context(Producer(store.path, ring_size=65536)) for _ in range(9)]
        with pytest.raises(IllegalMessage, match="descriptors for another bell"):
            all_descriptors(producers)
        refused = producers[-1]

        async def send() -> str:
            return (await refused.send_async("t", b"x")).status.name

        assert asyncio.run(send()) == "PUT_OK"
