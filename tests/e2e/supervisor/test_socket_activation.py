"""A store whose socket a service manager makes, holds and passes (`supervisor/listener.py`)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.checking.messages import check_store
from support.harness import PYTHON, WAIT_S, StoreProcess, eventually, memory_of
from support.load.producers import Producers
from support.service_manager import ServiceManager, SocketUnit, passing

from silomq import Consumer, Producer, StoreClosed
from silomq.client import session
from silomq.client.session import Connection
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SLOW_S = 3.0
#: Recovery takes SLOW_S longer: more than a client waits in silence.
SLOW = f"""
import time
from silomq.supervisor import prepare
fast = prepare.recover
def recover(*arguments):
    time.sleep({SLOW_S})
    return fast(*arguments)
prepare.recover = recover
"""


class Activated(StoreProcess):
    """A store that gets the socket of a unit."""

    def __init__(self, unit: SocketUnit, manager: ServiceManager) -> None:
        super().__init__(unit.path.parent, environ=manager.environ())
        self.pass_fds = (unit.socket.fileno(),)

    @property
    def command(self) -> list[str]:
        return passing(self.pass_fds, "silomq", super().command)


class WithBroker(Activated):
    """A store with a broker beside it, which gets the socket of a unit."""

    with_broker = True


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with ServiceManager(tmp_path) as found:
        yield found


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[SocketUnit]:
    with SocketUnit(tmp_path / "store") as found:
        yield found


@pytest.fixture
def store(unit: SocketUnit, manager: ServiceManager) -> Iterator[Activated]:
    found = Activated(unit, manager)
    try:
        yield found
    finally:
        found.clean_up()


class Waiting:
    """A client that opens its session in a thread of its own. `result` is what it did then."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.result: list[object] = []
        self.errors: list[Exception] = []
        self._act = act
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result.append(self._act())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.errors.append(error)

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def finish(self) -> object:
        self._thread.join(WAIT_S)
        assert not self.waits
        assert not self.errors, self.errors
        return self.result[0]


def send(store: Path, body: bytes, *, topic: str = "t") -> object:
    with Producer(store) as producer:
        return producer.send(topic, body).status.name


def bodies(store: Path, count: int, *, topic: str = "t") -> list[bytes]:
    with Consumer(store, topic) as consumer:
        found: list[bytes] = []
        while len(found) < count:
            found += [message.body for message in consumer.poll(timeout=WAIT_S)]
        return found


def test_clients_wait_while_the_store_recovers(
    store: Activated,
    unit: SocketUnit,
    manager: ServiceManager,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_REQUEST_S", 0.5)  # what a client waits for at other sockets
    client = Waiting(lambda: send(store.path, b"first"))
    eventually(lambda: unit.clients_wait, "systemd would start the service")
    store.planted = SLOW
    store.launch()
    assert manager.await_key("READY")["MAINPID"] == str(store.running.pid)
    monkeypatch.undo()
    assert client.finish() == "PUT_OK"
    assert "waiting for the store to start" in caplog.text
    caplog.clear()
    assert send(store.path, b"second") == "PUT_OK"
    assert not caplog.text
    assert sorted(bodies(store.path, 2)) == [b"first", b"second"]
    store.stop()


def test_a_stop_keeps_the_socket_and_those_who_wait(
    store: Activated, unit: SocketUnit, manager: ServiceManager
) -> None:
    store.launch()
    manager.await_key("READY")
    inode = os.stat(unit.path).st_ino
    store.stop()
    assert os.stat(unit.path).st_ino == inode
    clients = [Waiting(partial(send, store.path, b"%d" % n)) for n in range(5)]
    eventually(lambda: unit.clients_wait, "the clients have connected")
    store.launch()
    manager.await_key("READY")
    assert [client.finish() for client in clients] == ["PUT_OK"] * 5
    assert sorted(bodies(store.path, 5)) == [b"%d" % n for n in range(5)]
    store.crash()  # a killed store keeps it too
    assert os.stat(unit.path).st_ino == inode
    client = Waiting(lambda: send(store.path, b"after the crash"))
    store.launch()
    assert client.finish() == "PUT_OK"
    manager.await_key("READY")
    store.stop()


def test_a_stop_under_load_loses_no_message(
    store: Activated, unit: SocketUnit, manager: ServiceManager
) -> None:
    store.launch()
    manager.await_key("READY")
    with Producers(store, ["t"], ending=True) as producers:
        producers.await_flow()
        store.running.send_signal(signal.SIGTERM)
        assert store.running.wait(WAIT_S) == 0
        sent = producers.finish()
    client = Waiting(lambda: send(store.path, b"waited", topic="late"))
    eventually(lambda: unit.clients_wait, "the client has connected")
    store.launch()
    manager.await_key("READY")
    assert client.finish() == "PUT_OK"
    assert bodies(store.path, 1, topic="late") == [b"waited"]
    check_store(store, sent, ["t"], others=True, beside="late")
    store.stop()


def test_a_manager_that_gives_up_ends_the_wait(unit: SocketUnit) -> None:
    """A manager closes the socket of a service that fails again and again."""
    client = Waiting(lambda: send(unit.path.parent, b"x"))
    eventually(lambda: unit.clients_wait, "the client has connected")
    unit.close()
    eventually(lambda: not client.waits, "the client has ended")
    (error,) = client.errors
    assert isinstance(error, StoreClosed)
    assert "no store runs there" in str(error)


def test_a_client_may_bound_its_wait(unit: SocketUnit) -> None:
    with pytest.raises(StoreClosed, match=r"has not answered for 0\.[012]"):
        Connection(unit.path.parent, start_s=0.2)


def test_a_store_with_a_broker_takes_the_socket(unit: SocketUnit, manager: ServiceManager) -> None:
    store = WithBroker(unit, manager)
    client = Waiting(lambda: send(store.path, b"x"))
    eventually(lambda: unit.clients_wait, "the client has connected")
    store.launch()
    try:
        manager.await_message(lambda message: message.get("STATUS") == "serving clients", WAIT_S)
        assert client.finish() == "PUT_OK"
        store.running.send_signal(signal.SIGTERM)
        assert store.running.wait(WAIT_S) == 0, store.log()
        assert unit.path.is_socket()
    finally:
        if store.running.poll() is None:
            store.running.send_signal(signal.SIGTERM)
            store.running.wait(WAIT_S)
        store.clean_up()


# -- what is refused


def refused(
    store: Path,
    fds: list[int],
    names: str = "silomq",
    more: tuple[str, ...] = (),
    **variables: str,
) -> tuple[int, str]:
    """The exit status and the sentence of a store that gets these descriptors."""
    command = [*PYTHON, "-m", "silomq.cli.main", "serve", "--store", str(store), *more]
    if variables:
        command = ["/usr/bin/env", *(f"{k}={v}" for k, v in variables.items()), *command]
    done = subprocess.run(
        passing(fds, names, command),
        pass_fds=fds, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=WAIT_S,
    )  # fmt: skip
    said = done.stderr.decode().splitlines()
    assert memory_of(store) == []
    return done.returncode, said[-1]


@pytest.mark.parametrize("count", ["x", "\u00b2", "9" * 5000])
def test_the_parent_of_a_store_and_a_broker_leaves_the_refusal_to_the_store(
    unit: SocketUnit, count: str
) -> None:
    listen = ("--listen", "127.0.0.1:0")
    fds = [unit.socket.fileno()]
    status, said = refused(unit.path.parent, fds, more=listen, LISTEN_FDS=count)
    assert status == 3
    assert "it must be a number of descriptors" in said


def test_wrong_descriptors_are_refused(tmp_path: Path, unit: SocketUnit) -> None:
    store = unit.path.parent
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent,
        SocketUnit(tmp_path / "other") as other,
        (tmp_path / "file").open("w") as file,
    ):
        stream.bind(str(tmp_path / "stream"))
        stream.listen()
        silent.bind(str(tmp_path / "silent"))
        for end, why in (
            (tcp, "a socket of another kind (AF_INET, SOCK_STREAM)"),
            (stream, "a socket of another kind (AF_UNIX, SOCK_STREAM)"),
            (silent, "a socket that does not listen"),
            (other.socket, f"a socket at {other.path}, which is not in this store's folder"),
            (file, "which is no socket"),
        ):
            status, said = refused(store, [end.fileno()], "x\ty")
            assert status == 3
            assert why in said
            assert "descriptor 3 (x\\ty)" in said
            assert f"ListenSequentialPacket={store}/{SOCKET}" in said
        status, said = refused(store, [unit.socket.fileno(), other.socket.fileno()], "a:b")
        assert status == 3
        assert "passes 2 descriptors: 3 (a), 4 (b); a store takes one" in said
    assert unit.path.is_socket()
    assert not (store / "commitlog" / f"{0:020d}").exists()


@pytest.mark.parametrize("count", ["", "x", "-1", "٣", "99999999999"])
def test_a_count_that_is_none_is_refused(unit: SocketUnit, count: str) -> None:
    status, said = refused(unit.path.parent, [unit.socket.fileno()], LISTEN_FDS=count)
    assert status == 3
    assert "it must be a number of descriptors" in said


def test_a_descriptor_that_is_not_there_is_refused(unit: SocketUnit) -> None:
    status, said = refused(unit.path.parent, [unit.socket.fileno()], LISTEN_FDS="40")
    assert status == 3
    assert "is not open" in said


def test_a_socket_without_its_file_is_refused(unit: SocketUnit) -> None:
    unit.path.unlink()
    status, said = refused(unit.path.parent, [unit.socket.fileno()])
    assert status == 3
    assert "is gone, so that no client finds it" in said


def test_a_store_by_hand_leaves_a_managers_socket_alone(unit: SocketUnit) -> None:
    """The variables are for another process, or there are none: the socket is not this store's."""
    store = unit.path.parent
    unnamed, of_another = refused(store, []), refused(store, [unit.socket.fileno()], LISTEN_PID="1")
    for status, said in (unnamed, of_another):
        assert status == 3
        assert "has not passed it to this process: start the store by the manager" in said
        assert unit.path.is_socket()
        assert not unit.clients_wait, "a connection would start the service"


def test_the_socket_of_a_manager_that_is_gone_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    unit = SocketUnit(folder)
    unit.socket.close()
    with StoreProcess(folder):
        assert send(folder, b"x") == "PUT_OK"
