"""What becomes of a client whose store stops or dies, and starts again."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.checking.files import check_files
from support.checking.messages import read_topic
from support.harness import StoreProcess, eventually, kill_now, lives

from silomq import (
    Producer,
    StoreClosed,
)

# -- the store goes away


def test_restart_is_an_error_unless_wished(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        producer = Producer(store.path)
        producer.send("t", b"x")
        store.kill("append", signal.SIGSTOP)
        future = producer.send_async("t", b"pending")
        store.crash()
        with pytest.raises(StoreClosed, match="unanswered"):
            future.result(10)
        with pytest.raises(StoreClosed):
            producer.send("t", b"y")
        store.start()
        with pytest.raises(StoreClosed):
            producer.send("t", b"z")
        producer.close()
        with pytest.raises(StoreClosed):
            Producer(tmp_path / "nowhere")


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_retry_goes_on_after_a_restart(tmp_path: Path, how: str) -> None:
    with StoreProcess(tmp_path / "store") as store:
        bodies: list[bytes] = []
        errors: list[BaseException] = []
        stopping = threading.Event()

        def work() -> None:
            try:
                with Producer(store.path, on_restart="retry", timeout=20) as producer:
                    while not stopping.is_set():
                        futures = []
                        for _ in range(8):
                            bodies.append(b"%d" % len(bodies))
                            futures.append(producer.send_async("t", bodies[-1], queue=0))
                        for future in futures:
                            future.result(20)
            except BaseException as error:  # noqa: BLE001 # raised again in the test's thread
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(2):
            time.sleep(0.3)
            getattr(store, how)()
            time.sleep(0.1)
            store.start()
        time.sleep(0.3)
        stopping.set()
        thread.join(30)
        assert not errors, errors
        store.await_dispatch()
        views = read_topic(store.path, "t")
        first_seen = list(dict.fromkeys(view.body for view in views))
        assert first_seen == bodies, "everything is there, in order"
        # What is there twice was unanswered when the store went, and can be told by its key.
        twice = len(views) - len(bodies)
        assert twice <= 2 * 8
        assert len({view.message_id for view in views}) == len(bodies)


def test_what_was_published_before_a_stop_is_appended(tmp_path: Path) -> None:
    """Also if append learns of the stop first, and of the messages then."""
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            producer.send("t", b"0", queue=0)
            eventually(lambda: store.control.load("append_asleep"), "append sleeps")
            append = store.kill("append", signal.SIGSTOP)
            for number in range(1, 20):
                producer.send_oneway("t", b"%d" % number, queue=0)
            store.running.send_signal(signal.SIGTERM)
            eventually(lambda: is_pending(append, signal.SIGTERM), "append is told to stop")
            kill_now(append, signal.SIGCONT)
            assert store.running.wait(30) == 0, store.log()
        store.start()
        assert [int(view.body) for view in read_topic(store.path, "t")] == list(range(20))


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether the stopped process was sent the signal."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    pending = next(line.split()[1] for line in lines if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> number - 1 & 1)


def test_retry_gives_up_after_a_while(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path, on_restart="retry", reconnect_timeout=0.5) as producer:
            producer.send("t", b"x")
            store.stop()
            with pytest.raises(StoreClosed):
                producer.send("t", b"y", timeout=10)
        store.start()


def test_a_stop_dispatches_what_becomes_durable_late(tmp_path: Path) -> None:
    """Reput is told to stop while flush, which it waits for under SYNC_FLUSH, is behind."""
    settings: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "heartbeat_timeout_ms": 60_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        with Producer(store.path) as producer:
            producer.send("t", b"0", queue=0)
            store.await_dispatch()
            flush = store.kill("flush", signal.SIGSTOP)
            others = [store.pid(actor) for actor in ("registry", "schedule", "append", "commit")]
            producer.send_oneway("t", b"1", queue=0)
            store.running.send_signal(signal.SIGTERM)
            eventually(lambda: not any(lives(pid) for pid in others), "it is reput's turn")
            reput = store.pid("reput")
            seen = store.control.beat("reput").load()
            eventually(
                lambda: store.control.beat("reput").load() != seen or not lives(reput),
                "reput has looked again",
            )
            kill_now(flush, signal.SIGCONT)
            assert store.running.wait(30) == 0, store.log()
        check_files(store)
