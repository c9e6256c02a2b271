"""Where an exporter listens, and whom it answers."""

from __future__ import annotations

import http.client
import socket
import stat
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Gauge

from silomq.monitor.server import Address, listen, parse_address, shown
from silomq.store.errors import IllegalArgument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9876", Address(host="127.0.0.1", port=9876)),
        ("localhost:0", Address(host="127.0.0.1", port=0)),
        ("127.9.9.9:1", Address(host="127.9.9.9", port=1)),
        ("[::1]:9876", Address(host="::1", port=9876)),
        ("unix:/run/m.sock", Address(path="/run/m.sock")),
    ],
)
def test_addresses_of_this_machine(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "9876", ":9876", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1"),
        *("0.0.0.0:9876", "[::]:9876", "10.0.0.1:9876", "example.org:80", "[::1:9876", "::1:98"),
        *("unix:", "unix:" + "x" * 108, "unix:a\0b", "http://127.0.0.1:80", "127.0.0.1:٣"),
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(IllegalArgument, match=r"write unix:PATH|give a loopback|the path of"):
        parse_address(text)


@contextmanager
def serving(text: str) -> Iterator[str]:
    registry = CollectorRegistry()
    Gauge("answer", "of all", registry=registry).set(42)
    server = listen(parse_address(text), registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield shown(server)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(port: int, method: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_get_alone_is_answered() -> None:
    with serving("127.0.0.1:0") as address:
        port = int(address.rpartition(":")[2])
        status, body = ask(port, "GET", "/metrics")
        assert (status, b"answer 42.0" in body) == (200, True)
        assert ask(port, "GET", "/etc/passwd")[0] == 404
        for method in ("POST", "PUT", "DELETE"):
            assert ask(port, method, "/metrics")[0] == 501
        with socket.create_connection(("127.0.0.1", port)) as end:
            end.sendall(b"\xff\0garbage\r\n\r\n")
            end.shutdown(socket.SHUT_WR)
            end.recv(4096)
        assert ask(port, "GET", "/metrics")[0] == 200


def test_a_unix_socket_is_for_user_and_group_and_replaces_a_dead_one(tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    for _ in range(2):
        with serving(f"unix:{path}"), socket.socket(socket.AF_UNIX) as end:
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            end.connect(str(path))
            end.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: end.recv(65536), b""))
            assert b"answer 42.0" in answer
        assert path.exists()  # as a kill leaves it


def test_nothing_but_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(OSError, match="in use"):
        listen(Address(path=str(path)), CollectorRegistry())
    assert path.read_text() == "data"
    with serving(f"unix:{tmp_path / 'live'}"), pytest.raises(OSError, match="in use"):
        listen(Address(path=str(tmp_path / "live")), CollectorRegistry())
