"""The exporter that the supervisor starts: it serves, comes again, and is in nobody's way."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.commands import sentence, silo
from support.configured_stores import ConfiguredStore
from support.harness import StoreProcess, eventually, kill_now, lives

from silomq import Producer

if TYPE_CHECKING:
    from pathlib import Path


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def scrape(path: Path) -> str:
    """What the exporter tells, "" while it does not listen."""
    connection = UnixConnection(path)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    except (FileNotFoundError, ConnectionError):
        return ""
    finally:
        connection.close()


def exporter_of(store: StoreProcess) -> psutil.Process | None:
    for child in psutil.Process(store.running.pid).children():
        if "--listen" in child.cmdline():
            return child
    return None


def told(store: StoreProcess, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in store.log_path.read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def test_it_serves_comes_again_and_ends_with_the_store(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    with StoreProcess(tmp_path / "store", metrics_listen=f"unix:{path}") as store:
        eventually(lambda: "silomq_up 1.0" in scrape(path), "it serves")
        assert "rocketmq_" not in scrape(path)
        first = exporter_of(store)
        assert first is not None
        pids = store.pids()
        kill_now(first.pid)
        eventually(lambda: "silomq_up 1.0" in scrape(path), "another one serves")
        second = exporter_of(store)
        assert second is not None
        assert second.pid != first.pid
        (line,) = told(store, "the exporter ended, starting it again")
        assert line["how"] == "signal 9"
        assert store.pids() == pids, "no process of the store has noticed"
        with Producer(store.path) as producer:
            producer.send("alpha", b"x")
    assert not lives(second.pid)
    assert not path.exists()


def test_one_that_stands_still_delays_no_stop(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    settings: dict[str, Any] = {"metrics_listen": f"unix:{path}", "metrics_rocketmq_names": "true"}
    with StoreProcess(tmp_path / "store", **settings) as store:
        eventually(lambda: "rocketmq_" in scrape(path), "it serves RocketMQ's names")
        found = exporter_of(store)
        assert found is not None
        os.kill(found.pid, signal.SIGSTOP)
        store.stop()
        assert not lives(found.pid)


def test_a_reload_starts_moves_and_ends_it(tmp_path: Path) -> None:
    paths = [tmp_path / "a.sock", tmp_path / "b.sock"]
    store = ConfiguredStore(tmp_path / "store")
    store.file.write_text("")

    def reload(settings: str) -> str:
        store.file.write_text(settings)
        return silo("reload", store=store.path).stdout.decode()

    with store:
        pids = store.pids()
        assert "changed: metrics_listen" in reload(f'metrics_listen = "unix:{paths[0]}"\n')
        eventually(lambda: "silomq_up 1.0" in scrape(paths[0]), "one is started")
        first = exporter_of(store)
        assert first is not None
        os.kill(first.pid, signal.SIGSTOP)  # it does not end by itself
        moved = f'metrics_listen = "unix:{paths[1]}"\nmetrics_rocketmq_names = true\n'
        assert "changed: metrics_listen, metrics_rocketmq_names" in reload(moved)
        eventually(lambda: "rocketmq_" in scrape(paths[1]), "another one is elsewhere")
        assert not lives(first.pid)
        second = exporter_of(store)
        assert second is not None
        reload(moved + "append_spin_us = 7\n")
        assert lives(second.pid), "another setting is nothing to it"
        assert "changed" in reload("append_spin_us = 7\n")
        eventually(lambda: not lives(second.pid), "it has ended")
        assert not paths[1].exists()
        assert told(store, "the exporter ended, starting it again") == []
        changed = {name for name, pid in store.pids().items() if pids[name] != pid}
        assert changed == {"append"}


def test_it_dies_with_its_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    with StoreProcess(tmp_path / "store", metrics_listen=f"unix:{path}") as store:
        eventually(lambda: scrape(path), "it serves")
        found = exporter_of(store)
        assert found is not None
        kill_now(store.running.pid)
        eventually(lambda: not lives(found.pid), "it has ended")


def test_a_place_that_is_taken_is_told_and_the_store_runs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with StoreProcess(tmp_path / "store", metrics_listen=address) as store:
            event = "the exporter ended, starting it again"
            eventually(lambda: told(store, event), "its end is told")
            line = told(store, event)[0]
            assert f"cannot listen at {address}" in line["said"]
            assert line["how"] == "exit status 1"
            with Producer(store.path) as producer:
                producer.send("alpha", b"x")


@pytest.mark.parametrize("address", ["0.0.0.0:9", "unix:", "127.0.0.1", "example:9", "[::2]:9"])
def test_other_addresses_are_refused(address: str, tmp_path: Path) -> None:
    done = silo("serve", "--set", f"metrics_listen={address}", store=tmp_path / "s", status=3)
    assert "metrics_listen" in sentence(done)
