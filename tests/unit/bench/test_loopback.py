"""Ports for servers that take a while to start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from silomq.bench.loopback import _GIVEN, free_port, listens


def test_a_port_is_free_and_no_connection_gets_it() -> None:
    first = int(_GIVEN.read_text().split()[0])
    for port in {free_port() for _ in range(50)}:
        assert port < first
        with socket.create_server(("127.0.0.1", port)):
            assert listens(port)
        assert not listens(port)


def test_a_machine_that_gives_nearly_all_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "ip_local_port_range"
    given.write_text("1024\t65535\n")
    monkeypatch.setattr("silomq.bench.loopback._GIVEN", given)
    assert {free_port() for _ in range(50)} <= {*range(10_000, 65_536)}
