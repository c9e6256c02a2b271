"""A store within a small limit of open files: a client that does not fit is refused with a reason,
the store lives, and when clients have left others come in.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import sentence, silo
from support.harness import WAIT_S, StoreProcess, eventually

from silomq import Admin, Consumer, IllegalMessage, Producer, StoreClosed
from silomq.actors.descriptors import Descriptors
from silomq.client.session import Connection
from silomq.shm.protocol.admin_requests import AskBoard
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from pathlib import Path

MOST = 400


class LimitedStore(StoreProcess):
    """A store whose processes may have so many files open."""

    limit = 96

    @property
    def command(self) -> list[str]:
        shell = f'ulimit -n {self.limit} && exec "$@"'
        return ["/bin/sh", "-c", shell, "sh", *super().command]


def fill(store: StoreProcess, client: type[Any]) -> tuple[list[Any], str]:
    """Clients until one is refused, and why it is."""
    clients: list[Any] = []
    extra = {"ring_size": 65536} if client is Producer else {"topic": "t"}
    for _ in range(MOST):
        try:
            clients.append(client(store.path, **extra))
        except IllegalMessage as refused:
            return clients, str(refused)
    raise AssertionError(f"{MOST} clients and none refused")


def connected(store: StoreProcess) -> socket.socket:
    """A connection that says nothing."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(0.5)
    end.connect(str(store.path / SOCKET))
    return end


def close(clients: list[Any]) -> None:
    for client in clients:
        client.close()


@pytest.mark.parametrize("limit", [96, 256])
@pytest.mark.parametrize("client", [Producer, Consumer], ids=lambda c: c.__name__)
def test_the_next_client_is_refused_before_descriptors_run_out(
    tmp_path: Path, limit: int, client: type[Producer | Consumer]
) -> None:
    store = LimitedStore(tmp_path / "store", max_sessions=MOST)
    store.limit = limit
    with store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 1)
        pids = store.pids()
        clients, why = fill(store, client)
        try:
            expected = Descriptors(limit, inherited=3)
            room = expected.carries if client is Producer else expected.room
            assert room - 2 <= len(clients) <= room
            assert why.startswith("SERVICE_NOT_AVAILABLE: the store has no descriptors")
            assert f"its limit of open files is {limit}" in why
            assert "LimitNOFILE" in why
            assert "ulimit -n" in why
            if client is Producer:
                for producer in clients:
                    producer.send("t", b"x")
                # Each process can still be replaced, with all sessions.
                for actor in ("append", "registry", "reput"):
                    store.replace(actor)
                    for producer in clients:
                        producer.send("t", b"x")
            clients.pop().close()
            eventually(
                lambda: store.control.load("sessions") == len(clients), "the session is gone"
            )
            again, _ = fill(store, client)
            assert len(again) == 1
            clients += again
        finally:
            close(clients)
        eventually(lambda: store.control.load("sessions") == 0, "all sessions are gone")
        clients, _ = fill(store, client)
        close(clients)
        replaced = set() if client is Consumer else {"append", "registry", "reput"}
        assert {a for a, pid in store.pids().items() if pids[a] != pid} == replaced
        told = [json.loads(line) for line in store.log_path.read_text().splitlines()]
        warning = next(e for e in told if e["event"].startswith("the limit of open files carries"))
        assert warning["producers_at_most"] == expected.carries
        assert warning["max_sessions"] == MOST
        assert "LimitNOFILE" in warning["advice"]


def test_connections_without_a_session_do_not_use_up_descriptors(tmp_path: Path) -> None:
    """The oldest is closed for the next one; those who say hello get their session."""
    with contextlib.ExitStack() as opened, LimitedStore(tmp_path / "store") as store:
        registry = store.pid("registry")
        silent = [opened.enter_context(connected(store)) for _ in range(100)]
        with Producer(store.path) as producer:
            producer.send("t", b"x")
        assert silent[0].recv(1) == b""  # hung up
        assert len(os.listdir(f"/proc/{registry}/fd")) < LimitedStore.limit
        with pytest.raises(TimeoutError):
            silent[-1].recv(1)
        assert store.pid("registry") == registry


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    class SoftlyLimited(LimitedStore):
        @property
        def command(self) -> list[str]:
            return ["/bin/sh", "-c", 'ulimit -S -n 64 && exec "$@"', "sh", *self.plain]

        @property
        def plain(self) -> list[str]:
            return StoreProcess.command.fget(self)  # type: ignore[attr-defined, no-any-return]

    with SoftlyLimited(tmp_path / "store") as store:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for pid in (store.running.pid, *store.pids().values()):
            assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
        assert "the limit of open files carries" not in store.log()


def test_a_limit_that_is_too_small_is_refused_at_the_start(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -n 50 && exec "$@"', "sh", *StoreProcess(tmp_path / "s").command],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "the limit of open files is 50, a store needs at least" in done.stderr
    assert "LimitNOFILE" in done.stderr


def test_the_supervisor_outlives_a_limit_that_shrinks(tmp_path: Path) -> None:
    """With no descriptor left an actor cannot be started again. It is, once there are some."""
    with StoreProcess(tmp_path / "store") as store, Producer(store.path, timeout=30.0) as producer:
        producer.send("t", b"x")
        supervisor = store.running.pid
        before = resource.prlimit(supervisor, resource.RLIMIT_NOFILE)
        used = {int(fd) for fd in os.listdir(f"/proc/{supervisor}/fd")}
        # A start takes two at once. The dead process has left one.
        for more in range(2):
            free = [fd for fd in range(before[0]) if fd not in used][more]
            resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (free, before[1]))
            killed = store.kill("append")
            if more == 0:
                eventually(
                    lambda: "cannot start an actor now" in store.log(), "the supervisor tells"
                )
            resource.prlimit(supervisor, resource.RLIMIT_NOFILE, before)
            store.await_successor("append", killed)
            producer.send("t", b"x")
            store.log_path.write_text("")
        assert store.running.poll() is None


def test_a_session_whose_descriptors_do_not_arrive_ends(tmp_path: Path) -> None:
    """In the supervisor, and in append: nobody waits for a session that nobody serves."""
    with StoreProcess(tmp_path / "store") as store:
        for pid, said in (
            (store.running.pid, "no descriptors for a session"),
            (store.pid("append"), "no descriptors for a session"),
        ):
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
            free = [fd for fd in range(before[0]) if fd not in used][1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, before[1]))
            with pytest.raises(StoreClosed), Producer(store.path, timeout=10.0) as lost:
                lost.send("t", b"x")
            eventually(lambda: said in store.log(), said)  # noqa: B023
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            eventually(lambda: store.control.load("sessions") == 0, "it is gone")
            with Producer(store.path) as producer:
                producer.send("t", b"y")
            eventually(lambda: store.control.load("sessions") == 0, "it is gone")
            store.log_path.write_text("")


def test_the_command_says_it_in_one_sentence(tmp_path: Path) -> None:
    with LimitedStore(tmp_path / "store", max_sessions=MOST) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 1)
        clients, _ = fill(store, Producer)
        try:
            clients += fill(store, Consumer)[0]
            assert "limit of open files" in sentence(silo("status", store=store.path, status=1))
        finally:
            close(clients)


class WithBoard(Connection):
    """A session that has a board."""

    def __init__(self, store: Path, topic: str) -> None:
        super().__init__(store, client=topic)
        try:
            _, fds = self.ask(AskBoard())
        except IllegalMessage:
            self.close()
            raise
        self.drop(fds)


def test_boards_count_as_well(tmp_path: Path) -> None:
    """A session with a board takes two descriptors in the registry."""

    def boards() -> int:
        with Admin(store.path) as admin:
            return len(admin.status()["brokers"])

    with LimitedStore(tmp_path / "store", max_sessions=MOST) as store:
        links, why = fill(store, WithBoard)
        try:
            assert "no descriptors for another" in why
            assert 2 <= len(links) <= Descriptors(store.limit, inherited=3).room // 2
            links.pop().close()
            eventually(lambda: boards() == len(links), "the others are there")
        finally:
            close(links)
        eventually(lambda: boards() == 0, "they are gone")
