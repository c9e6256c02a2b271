"""When the watchdog is fed: every process answers, and the log's followers follow."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from silomq.conf.settings import Settings
from silomq.shm import sealed
from silomq.shm._memory import Mapping
from silomq.shm.control import ACTORS, HEARTBEAT_SIZE, SIZE, Control, process_number
from silomq.shm.ownership import STARTUP
from silomq.supervisor.child import Child
from silomq.supervisor.restarts import RestartPolicy
from silomq.supervisor.soundness import Soundness

SILENT_S = 10.0


class Store:
    """A control block, children that live, and the judge of them."""

    def __init__(self, **settings: Any) -> None:
        fd = sealed.create("control", SIZE)
        memory = Mapping(fd, 0, SIZE)
        os.close(fd)
        Control(memory, STARTUP).create(1)
        self.memory = memory
        self.now = time.monotonic()
        self.world = SimpleNamespace(
            settings=Settings(**settings), control=Control(memory), pool=None,
            filed="wrote", dispatch_limit="wrote",
        )  # fmt: skip
        self.policies = {name: RestartPolicy(1.0, 5) for name in ACTORS}
        self.children = {
            name: Child(name, os.getpid(), -1, -1, self.now - 100, ready=True) for name in ACTORS
        }
        world: Any = self.world
        self.judge = Soundness(world, SILENT_S, self.policies)

    def beat(self, *silent: str) -> None:
        for name in ACTORS:
            if name not in silent:
                at = HEARTBEAT_SIZE * process_number(name)
                Control(self.memory, name).own("heartbeat", at).store(int(self.now * 1e9))

    def store(self, writer: str, word: str, value: int) -> None:
        Control(self.memory, writer).own(word).store(value)

    def unsound(self) -> list[str]:
        return self.judge.unsound(self.children, self.now)


def test_a_store_whose_processes_beat_is_sound() -> None:
    store = Store()
    for _ in range(20):
        store.beat()
        assert store.unsound() == []
        store.now += 5


@pytest.mark.parametrize("name", ACTORS)
def test_silence_is_unsound(name: str) -> None:
    store = Store()
    store.beat()
    store.now += SILENT_S - 0.1
    store.beat(name)
    assert store.unsound() == []
    store.now += 0.2
    assert store.unsound() == [name]


def test_a_crash_loop_is_unsound_until_a_life_lasts() -> None:
    store = Store()
    policy = store.policies["reput"]
    for _ in range(6):
        store.beat()
        assert store.unsound() == []
        policy.died(was_ready=True, lived_s=0.1)
    child = store.children["reput"]
    child.started = store.now
    assert store.unsound() == ["reput"]
    del store.children["reput"]
    assert store.unsound() == ["reput"]
    store.children["reput"] = child
    store.now += 3
    store.beat()
    assert store.unsound() == []


def test_one_death_is_sound() -> None:
    store = Store()
    store.beat()
    store.policies["append"].died(was_ready=True, lived_s=0.1)
    del store.children["append"]
    assert store.unsound() == []


@pytest.mark.parametrize(("name", "word"), [("flush", "flushed"), ("reput", "dispatched")])
def test_a_watermark_that_rests_is_unsound(name: str, word: str) -> None:
    store = Store(flush_commit_log_thorough_interval_ms=10_000)
    other, other_word = {"flush": ("reput", "dispatched"), "reput": ("flush", "flushed")}[name]
    store.store("append", "wrote", 1000)
    store.store(other, other_word, 1000)
    for step in range(6):  # it moves, if slowly
        store.store(name, word, step)
        store.beat()
        assert store.unsound() == []
        store.now += 15
    found = []
    for _ in range(6):
        store.beat()
        found += store.unsound()
        store.now += 10
    assert set(found) == {name}
    store.store(name, word, 1000)
    store.beat()
    assert store.unsound() == []


@pytest.mark.parametrize(
    ("writer", "word", "value"),
    [("clean", "disk_flags", 1), ("flush", "flush_error", 5), ("supervisor", "failed", 1 << 4)],
)
def test_states_that_are_told_otherwise_are_not_unsound(writer: str, word: str, value: int) -> None:
    store = Store()
    store.store("append", "wrote", 1000)
    store.store("flush", "flushed", 1000)
    store.store(writer, word, value)
    assert ACTORS[4] == "reput"
    for _ in range(10):
        store.beat()
        assert store.unsound() == []
        store.now += 30
