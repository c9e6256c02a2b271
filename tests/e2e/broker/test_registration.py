"""A broker registers with several name servers: no bad one keeps it from the good ones."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import send_fields
from support.brokers import BrokerProcess
from support.harness import eventually
from support.name_servers import NameServerProcess, name_server
from support.remoting_client import RemotingClient

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.harness import StoreProcess


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where two name servers have their logs."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    return first, second


def registered(store: StoreProcess, *servers: str) -> BrokerProcess:
    """A broker that registers with these name servers."""
    return BrokerProcess(store.path, f"namesrvAddr={';'.join(servers)}", listen="127.0.0.1:0")


def knows(server: str, topic: str) -> bool:
    """Whether a name server knows a topic."""
    with RemotingClient(server) as client:
        return client.ask(105, {"topic": topic}).code == 0


@contextlib.contextmanager
def bad_server(*, closes: bool) -> Iterator[str]:
    """The address of a peer that accepts connections. It closes them, or never says anything."""
    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    end, _ = listener.accept()
                    if closes:
                        end.close()
                    else:
                        ends.append(end)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for end in ends:
                end.close()


def test_two_name_servers(store: StoreProcess, folders: tuple[Path, Path]) -> None:
    with name_server(folders[0]) as first, name_server(folders[1]) as second:
        servers = first.address, second.address
        with registered(store, *servers) as broker:
            for server in servers:
                eventually(functools.partial(knows, server, "TBW102"), "it registers", 5)
                assert not knows(server, "made")
            with RemotingClient(broker.address) as client:
                assert client.ask(10, send_fields("made"), b"x").code == 0
            began = time.monotonic()
            for server in servers:
                eventually(functools.partial(knows, server, "made"), "a topic is told", 5)
            print(f"known within {time.monotonic() - began:.3f} s")
            assert time.monotonic() - began < 1
            with RemotingClient(second.address) as client:
                route = json.loads(client.ask(105, {"topic": "made"}).body)
            assert route["brokerDatas"][0]["brokerName"] == "broker-a"
            began = time.monotonic()
            broker.stop()
            assert not any(knows(server, "made") for server in servers), "it unregisters"
            assert time.monotonic() - began < 5


def test_bad_name_servers(store: StoreProcess, folders: tuple[Path, Path]) -> None:
    """One never answers, one closes, one is not there: the last learns everything at once."""
    nobody = f"127.0.0.1:{free_port()}"
    with (
        bad_server(closes=False) as silent,
        bad_server(closes=True) as closing,
        name_server(folders[0]) as good,
        registered(
            store, silent, closing, nobody, "no.such.host.invalid:1", good.address
        ) as broker,
    ):
        eventually(lambda: knows(good.address, "TBW102"), "it registers", 2)
        for number in range(3):
            topic = f"beside{number}"
            with RemotingClient(broker.address) as client:
                assert client.ask(10, send_fields(topic), b"x").code == 0
            eventually(functools.partial(knows, good.address, topic), "a topic is told", 1)
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < 8
        assert not knows(good.address, "TBW102")
        for address in (closing, nobody, "no.such.host.invalid:1"):
            assert f'"address": "{address}"' in broker.log()
        assert broker.log().count("does not know this broker") < 20


def test_a_name_server_that_comes_later(store: StoreProcess, folders: tuple[Path, Path]) -> None:
    address = f"127.0.0.1:{free_port()}"
    with registered(store, address) as broker:
        time.sleep(0.5)
        for folder in folders:  # it comes, goes, and comes again
            server = NameServerProcess(folder, "--listen", address)
            try:
                eventually(lambda: knows(address, "TBW102"), "it registers", 35)
            finally:
                server.stop()
            with RemotingClient(broker.address) as client:
                assert client.ask(10, send_fields(f"later-{folder.name}"), b"x").code == 0
        eventually(lambda: "registered with a name server again" in broker.log(), "it is told")


def test_a_port_that_is_none(store: StoreProcess) -> None:
    broker = registered(store, "127.0.0.1:70000")
    with pytest.raises(AssertionError, match="a port is 1 to 65535"):
        broker.start()
    assert broker.running.wait(10) == 3
