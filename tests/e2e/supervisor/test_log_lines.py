"""The log of a running store: slow steps, and what clients cannot do to it."""

from __future__ import annotations

import json
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import silo
from support.configured_stores import ConfiguredStore
from support.harness import StoreProcess, eventually

from silomq import IllegalMessage, Producer, StoreError

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = 'x\n{"event": "store stopped"}\x1b[2J\u202e\x9b'


def lines(store: StoreProcess) -> list[dict[str, Any]]:
    """All lines of the log; each must be one."""
    text = store.log_path.read_text()
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)
    return [json.loads(line) for line in text.splitlines()]


def slow(store: StoreProcess) -> list[dict[str, Any]]:
    return [line for line in lines(store) if line["event"] == "a step was slow"]


def test_append_that_stands_still_is_told(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"slow_operation_ms": 300, "heartbeat_timeout_ms": 60_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        done = threading.Event()

        def send() -> None:
            with Producer(store.path, timeout=30) as producer:
                while not done.is_set():
                    producer.send_async("alpha", b"x" * 100)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for _ in range(20):
                store.kill("append", signal.SIGSTOP)
                time.sleep(0.5)  # longer than slow_operation_ms
                store.kill("append", signal.SIGCONT)
                time.sleep(0.1)
                if any(line["stage"] == "append" for line in slow(store)):
                    break
        finally:
            done.set()
            sender.join(30)
        found = next(line for line in slow(store) if line["stage"] == "append")
        assert (found["level"], found["actor"], found["limit_ms"]) == ("warning", "append", 300)
        assert found["took_ms"] >= 300


def test_the_stage_of_a_slow_disk_is_told(tmp_path: Path) -> None:
    """With a limit of 1 ms every disk is slow at times."""
    settings: dict[str, Any] = {"slow_operation_ms": 1, "flush_interval_commit_log_ms": 10}
    with StoreProcess(tmp_path / "store", **settings) as store:
        with Producer(store.path, timeout=30) as producer:

            def told() -> bool:
                for _ in range(200):
                    producer.send("alpha", b"x" * 10_000)
                return bool({line["stage"] for line in slow(store)} - {"append"})

            eventually(told, "a stage was slow")
        stages = {line["stage"]: line["actor"] for line in slow(store)}
        expected = {
            "append": "append",
            "file_wait": "append",
            "sync": "flush",
            "queue_sync": "flush",
            "dispatch": "reput",
            "make": "allocate",
        }
        assert stages.items() <= expected.items()


def test_the_limit_of_slow_steps_may_change_at_run_time(tmp_path: Path) -> None:
    store = ConfiguredStore(tmp_path / "store", flush_interval_commit_log_ms=10)
    store.file.write_text("slow_operation_ms = 0\n")
    with store, Producer(store.path, timeout=30) as producer:

        def told() -> bool:
            for _ in range(200):
                producer.send("alpha", b"x" * 10_000)
            return bool(slow(store))

        for _ in range(5):
            assert not told(), "none is told"
        store.file.write_text("slow_operation_ms = 1\n")
        assert b"changed: slow_operation_ms" in silo("reload", store=store.path).stdout
        eventually(told, "a stage was slow")


def test_no_name_of_a_client_reaches_the_log_as_it_is(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            for topic in (HOSTILE, HOSTILE * 100):
                with pytest.raises(StoreError):
                    producer.send(topic, b"x")
            with pytest.raises(IllegalMessage):
                producer.send("alpha", b"x", keys=HOSTILE + "\x01\x02")
        assert "store stopped" not in {line["event"] for line in lines(store)}


def test_a_store_whose_folder_has_a_hostile_name(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "a\x1b[2J\nb") as store:
        assert {line["store"] for line in lines(store)} == {"a\x1b[2J\nb"}
