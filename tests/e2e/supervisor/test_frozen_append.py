"""Append is stopped (SIGSTOP) under load: for producers with default settings that is a stall."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from support.harness import StoreProcess, eventually

from silomq import Consumer, Producer

if TYPE_CHECKING:
    from pathlib import Path

THREADS = 4


def test_a_frozen_append_is_a_stall_and_no_send_time_out(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        sent: list[list[bytes]] = [[] for _ in range(THREADS)]
        errors: list[Exception] = []
        done = threading.Event()

        def send(number: int, producer: Producer) -> None:
            try:
                while not done.is_set():
                    body = b"%d-%d" % (number, len(sent[number]))
                    producer.send("load", body, queue=number % 4)
                    sent[number].append(body)
            except Exception as error:  # noqa: BLE001 - it fails the test
                errors.append(error)

        with Producer(store.path) as one, Producer(store.path) as two:
            assert one.timeout > store_patience(store)
            threads = [
                threading.Thread(target=send, args=(number, (one, two)[number % 2]))
                for number in range(THREADS)
            ]
            for thread in threads:
                thread.start()
            eventually(lambda: min(map(len, sent)) > 100, "load")
            pid = store.kill("append", signal.SIGSTOP)
            store.await_successor("append", pid)
            behind = [len(some) for some in sent]
            eventually(
                lambda: errors or all(len(s) > n + 100 for s, n in zip(sent, behind, strict=True)),
                "load goes on",
            )
            done.set()
            for thread in threads:
                thread.join()
        assert errors == []
        store.await_dispatch()
        with Consumer(store.path, "load") as consumer:
            found: list[bytes] = []
            while consumer.lag():
                found += [message.body for message in consumer.poll(10_000)]
        assert sorted(found) == sorted(body for some in sent for body in some)


def store_patience(store: StoreProcess) -> float:
    """Seconds after which the supervisor takes a process for frozen: the default."""
    assert "heartbeat_timeout_ms" not in store.settings
    return 3.0


def test_the_time_out_follows_the_stores_setting(tmp_path: Path) -> None:
    """By default: where the supervisor waits for longer, so do producers."""
    with StoreProcess(tmp_path / "store", heartbeat_timeout_ms=60_000) as store:
        with Producer(store.path) as producer:
            assert producer.timeout == 67.0
        with Producer(store.path, timeout=2.5) as producer:
            assert producer.timeout == 2.5
