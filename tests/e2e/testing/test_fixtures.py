"""The fixtures for pytest, in runs of pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

USED = """
import pathlib
from silomq import Consumer, Producer

def exchange(silomq):
    topic, group = silomq.topic("orders"), silomq.group("readers")
    with pathlib.Path("seen").open("a") as seen:
        seen.write(f"{silomq.address} {silomq.store} {topic} {group}\\n")
    with Producer(silomq.store) as producer:
        producer.send(topic, b"x")
    with Consumer(silomq.store, topic, offset="earliest") as consumer:
        assert [message.body for message in consumer.poll(2, timeout=5.0)] == [b"x"]

def test_one(silomq):
    exchange(silomq)

def test_two(silomq):
    exchange(silomq)

def test_of_the_session(silomq_server, silomq):
    assert silomq.address == silomq_server.address
    exchange(silomq)
    exchange(silomq)
"""
UNUSED = """
import sys

def test_it_is_there_and_has_loaded_nothing():
    loaded = {name for name in sys.modules if name.startswith("silomq.")}
    assert loaded == {"silomq.testing", "silomq.testing.fixtures"}
    assert not {"structlog", "click", "msgspec"} & set(sys.modules)
"""
KILLED = """
import os, signal

def test_a(silomq):
    with open("seen", "w") as seen:
        seen.write(f"{silomq.address} {silomq.store} t g")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    temporary = folder / "temporary"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-W", "error", *more],
        cwd=folder, text=True, capture_output=True, check=False, timeout=100,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip


def seen(folder: Path) -> list[list[str]]:
    """Address, store, topic and group of each use."""
    return [line.split() for line in (folder / "seen").read_text().splitlines()]


@pytest.mark.parametrize("workers", [0, 2])
def test_each_test_has_topics_and_groups_of_its_own(tmp_path: Path, workers: int) -> None:
    done = run(tmp_path, USED, "-n", str(workers))
    assert done.returncode == 0, done.stdout + done.stderr
    uses = seen(tmp_path)
    assert len(uses) == 4
    addresses, stores, topics, groups = (set(column) for column in zip(*uses, strict=True))
    assert len(topics) == len(groups) == 4
    assert len(addresses) == len(stores) <= max(workers, 1)
    assert list((tmp_path / "temporary").glob("silomq-*")) == []


def test_what_no_test_uses_costs_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, UNUSED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    from support.harness import eventually

    run(tmp_path, KILLED)
    ((_, store, _, _),) = seen(tmp_path)
    eventually(lambda: not os.path.exists(store), "the store ends with the tests")
