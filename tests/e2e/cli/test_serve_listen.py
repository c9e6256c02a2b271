"""`silo serve --listen`: a store and its broker by one command."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
from support.commands import SMALL_OPTIONS, sentence, silo
from support.dev_servers import ANY_PORT, DevServer
from support.harness import eventually, kill_now, memory_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RUNNING = re.compile(r'"broker running", "address": "([^"]+)"')


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DevServer]:
    """A running store with its broker."""
    store = tmp_path / "store"
    place = ("--store", str(store), "--listen", ANY_PORT)
    server = DevServer(tmp_path, "serve", *place, *SMALL_OPTIONS, "--set", "brokerName=mine")
    try:
        server.launch()
        eventually(lambda: _RUNNING.search(server.log()), "the broker runs")
        found = _RUNNING.search(server.log())
        assert found is not None
        yield server.at(found[1], store)
    finally:
        server.clean_up()


def events(server: DevServer) -> list[tuple[str, str]]:
    """Who logged what, in their order."""
    lines = map(json.loads, server.log().splitlines())
    return [(line["actor"], line["event"]) for line in lines]


def test_new_code_of_the_store_leaves_its_broker_alone(server: DevServer) -> None:
    """The store is the same process, so the parent of both still watches it."""
    server.exchange("t")
    broker, store = server.pid("broker"), server.pid("supervisor")
    silo("reload", "--code", "--trial", "0", store=server.store)
    assert (server.pid("broker"), server.pid("supervisor")) == (broker, store)
    server.exchange("u")
    assert server.stop() == 0
    assert server.nothing_runs()
    assert memory_of(server.store) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_broker_ends_before_the_store(server: DevServer, number: signal.Signals) -> None:
    server.exchange("t")
    assert server.stop(number) == 0
    assert server.nothing_runs()
    assert memory_of(server.store) == []
    last = [event for event in events(server) if event[1].endswith("stopped")]
    assert last == [("broker", "broker stopped"), ("supervisor", "store stopped")]
    assert {level["level"] for level in map(json.loads, server.log().splitlines())} == {"info"}


def test_the_store_stands_for_the_command(server: DevServer) -> None:
    os.kill(server.pid("supervisor"), signal.SIGTERM)
    assert server.wait() == 0
    assert server.nothing_runs()


def test_a_killed_store_ends_all_and_starts_again(server: DevServer, tmp_path: Path) -> None:
    server.exchange("t")
    kill_now(server.pid("supervisor"))
    assert server.wait() == 128 + signal.SIGKILL
    eventually(server.nothing_runs, "all end")
    again = DevServer(tmp_path, "dev", "--listen", ANY_PORT, "--store", str(server.store))
    with again:
        again.exchange("t")


def test_a_killed_command_stops_the_store_cleanly(server: DevServer) -> None:
    server.exchange("t")
    kill_now(server.running.pid)
    server.wait()
    eventually(server.nothing_runs, "all end")
    assert memory_of(server.store) == []
    assert ("supervisor", "store stopped") in events(server)


def test_a_hang_up_reads_the_settings_again(server: DevServer) -> None:
    broker = server.pid("broker")
    os.kill(server.running.pid, signal.SIGHUP)
    read = ("supervisor", "read the settings again")
    eventually(lambda: read in events(server), "the store has read them")
    server.exchange("t")
    assert server.pid("broker") == broker


def test_a_frozen_broker_does_not_hold_up_the_end(server: DevServer) -> None:
    os.kill(server.pid("broker"), signal.SIGSTOP)
    assert server.stop() == 0
    assert server.nothing_runs()


def test_refusals(server: DevServer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    said = sentence(silo("serve", "--listen", server.address, store=other, status=1))
    assert f"cannot listen on {server.address}" in said
    said = sentence(silo("serve", "--listen", "0.0.0.0:0", store=other, status=3))
    assert "--open" in said
    said = sentence(silo("serve", "--set", "brokerName=x", store=other, status=3))
    assert "brokerName" in said
    again = silo("serve", "--listen", ANY_PORT, store=server.store, status=4)
    assert "in use by another process" in sentence(again)
    assert not other.exists()
