"""`silo metrics` and `silo top` on a real store: what they show, and what they say without one."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.commands import SILO, sentence, silo
from support.harness import StoreProcess, eventually

import silomq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Samples = dict[tuple[str, str], float]


def send(store: StoreProcess, topic: str, count: int) -> None:
    with silomq.Producer(store.path) as producer:
        for _ in range(count):
            producer.send(topic, b"a message")


def samples(text: str) -> Samples:
    """Name and the value of the first label -> value."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, next(iter(sample.labels.values()), "")
            assert key not in found, key
            found[key] = sample.value
    return found


def scrape(store: StoreProcess, *options: str) -> Samples:
    return samples(silo("metrics", *options, store=store.path).stdout.decode())


def test_the_text_is_valid_and_says_what_was_done(store: StoreProcess, topic: str) -> None:
    before = scrape(store)
    send(store, topic, 25)
    text = silo("metrics", "--rocketmq-names", store=store.path).stdout
    found = samples(text.decode())
    put = ("silomq_put_messages_total", "")
    assert found[put] - before[put] == 25
    assert found["silomq_topic_messages", topic] == 25
    assert found["silomq_put_duration_seconds_bucket", "+Inf"] == found[put]
    assert found["silomq_up", ""] == 1
    assert found["silomq_log_offset_bytes", "wrote"] == store.control.load("wrote")
    assert found["rocketmq_brokeruntime_commitlog_maxoffset", ""] == store.control.load("wrote")
    assert {name for name, _ in before if name.startswith("rocketmq")} == set()
    assert all(name.startswith(("silomq_", "rocketmq_")) for name, _ in found)


@pytest.mark.skipif(not shutil.which("promtool"), reason="Debian's prometheus is not installed")
def test_promtool_finds_no_fault(store: StoreProcess, topic: str) -> None:
    send(store, topic, 5)
    text = silo("metrics", store=store.path).stdout
    check = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, b"")


def test_many_topics_are_summed_in_one_row(store: StoreProcess) -> None:
    for number in range(7):
        send(store, f"many{number}", 3)
    found = scrape(store, "--most-topics", "4")
    rows = {label: v for (name, label), v in found.items() if name == "silomq_topic_messages"}
    assert len(rows) == 5
    topics = found["silomq_topics", ""]
    assert found["silomq_topics_summed", ""] == topics - 4 > 0
    everything = scrape(store)
    whole = [v for (name, _), v in everything.items() if name == "silomq_topic_messages"]
    assert sum(rows.values()) == sum(whole)
    assert everything["silomq_topics_summed", ""] == 0


@contextmanager
def exporter(store: Path, address: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [*SILO, "metrics", "--store", str(store), "--listen", address]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline().decode()
            assert said.startswith("silo: serving metrics at "), said
            yield process, said.split()[-1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_an_exporter_outlives_the_store(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store")

    def up() -> float:
        with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
            found = samples(answer.read().decode())
        value = found["silomq_up", ""]
        assert value == 1 or len(found) == 1
        return value

    with exporter(store.path, "127.0.0.1:0") as (_, place):
        assert up() == 0
        for _ in range(2):
            with store:
                eventually(up, "the store is seen")
            assert up() == 0


def test_an_exporter_removes_its_socket(store: StoreProcess, tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    with exporter(store.path, f"unix:{path}"):
        assert path.is_socket()
    assert not path.exists()


def test_top_shows_everything_once_without_a_terminal(store: StoreProcess, topic: str) -> None:
    send(store, topic, 50)
    text = silo("top", store=store.path).stdout.decode()
    for word in ("Rates", "Commit log", "Processes", "Groups", "Disk:", "append", "dispatched"):
        assert word in text
    found = json.loads(silo("top", "--json", "--once", store=store.path).stdout)
    assert found["positions"]["wrote"] == store.control.load("wrote")
    assert {one["process"]: one["pid"] for one in found["processes"]} == store.pids()
    assert all(one["memory_bytes"] > 0 for one in found["processes"])
    assert found["rates"]["put_messages"] > 0
    assert found["disk"]["free_bytes"] > 0


@pytest.mark.parametrize("command", ["top", "metrics"])
def test_a_store_that_does_not_run_is_one_sentence(command: str, tmp_path: Path) -> None:
    done = silo(command, store=tmp_path / "nothing", status=1)
    assert re.search("there is no such folder; start it with", sentence(done))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("metrics", "--listen", "0.0.0.0:1"), "loopback"),
        (("metrics", "--listen", "nowhere"), "write unix:PATH"),
        (("metrics", "--most-topics", "-1"), "most-topics"),
        (("top", "--interval", "0"), "interval"),
        (("top", "--interval", "nan"), "interval"),
        (("top", "--most-groups", "x"), "most-groups"),
        (("top", "extra"), "extra"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], why: str, store: StoreProcess
) -> None:
    assert why in sentence(silo(*arguments, store=store.path, status=2))


def test_an_address_in_use_is_one_sentence(store: StoreProcess, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("data")
    done = silo("metrics", "--listen", f"unix:{path}", store=store.path, status=1)
    assert "cannot listen" in sentence(done)
    assert path.read_text() == "data"
