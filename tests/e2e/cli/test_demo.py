"""The demo, short: it must work twice, notice what is wrong, and leave no process behind."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.harness import PYTHON, WAIT_S, connect, memory_of

from silomq.cli.demo.demo import Result, compare
from silomq.cli.demo.flights import FLIGHTS, Event, Tally, airlines, data_folder, events
from silomq.cli.demo.processes import DemoFailed
from silomq.shm import segments

if TYPE_CHECKING:
    from pathlib import Path

DEMO = (*PYTHON, "-m", "silomq.cli.demo")


def test_twice_in_the_same_folder(tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run(
            [*DEMO, "--flights", "5000", "--no-spark"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        assert "5,000 events" in done.stdout
        assert "what came out is what went in" in done.stdout
        assert re.search(r"append was killed with SIGKILL: .* after [0-9]+ ms", done.stdout)
        assert "stopped cleanly" in done.stdout
        assert "differ" not in done.stdout
        assert memory_of(tmp_path / "demo-store") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    store = tmp_path / "store"
    with subprocess.Popen(
        [*DEMO, "--store", str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as demo:
        store.mkdir(exist_ok=True)
        with connect(store, demo) as admin:
            while admin.status()["records"] < 1000:
                time.sleep(0.01)
        children = psutil.Process(demo.pid).children(recursive=True)
        assert len(children) > 7
        demo.send_signal(number)
        _, talk = demo.communicate(timeout=WAIT_S)
    assert demo.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    assert b"Traceback" not in talk
    assert psutil.wait_procs(children, timeout=WAIT_S)[1] == []
    assert memory_of(store) == []


def test_a_store_that_does_not_start_is_said(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
    done = subprocess.run(
        [*DEMO, "--store", str(store)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("demo: the store did not start: silo: ")
    assert done.stderr.count("\n") == 1
    segments.remove_all(segments.store_identity(store))


def test_all_flights_are_read() -> None:
    folder = data_folder()
    count = 0
    late = None
    topics = set()
    for event in events(folder, FLIGHTS + 1):
        count += 1
        topics.add(event.topic)
        late = late or (event if b'"dep_time":2400' in event.body else None)
        if count == 1:
            # 05:17 in New York, in winter.
            assert event == Event("flights_UA", "EWR", "N14228 UA1545", 1357035420000, event.body)
            assert event.body.startswith(b'{"year":2013,"month":1,"day":1,"dep_time":517,')
    assert count == FLIGHTS
    assert topics == {f"flights_{carrier}" for carrier in airlines(folder)}
    assert late is not None
    # Midnight in New York is 4 or 5 o'clock in UTC.
    assert late.departed_ms // 60_000 % (24 * 60) in {240, 300}


def result(read: dict[str, list[int]], tally: Tally) -> Any:
    class Replayed:
        pass

    Replayed.tally = tally  # type: ignore[attr-defined]
    return Result(Replayed(), {"queues": read}, 1.0, 0.0)  # type: ignore[arg-type]


def test_the_check_finds_every_difference() -> None:
    def tally_of(*bodies: bytes, tag: str = "a", born: int = 1) -> Tally:
        tally = Tally()
        for body in bodies:
            tally.add(0, Event("t", tag, "k", born, body))
        return tally

    sent = tally_of(b"1", b"2", b"3")
    compare(result(sent.queues, sent), 3)
    for came in (
        tally_of(b"1", b"2"),
        tally_of(b"1", b"2", b"2", b"3"),
        tally_of(b"1", b"3", b"2"),
        tally_of(b"1", b"2", b"4"),
        tally_of(b"1", b"2", b"3", tag="b"),
        tally_of(b"1", b"2", b"3", born=2),
        Tally(),
    ):
        with pytest.raises(DemoFailed, match=r"queue t/0: 3 messages with checksum"):
            compare(result(came.queues, sent), 3)
    with pytest.raises(DemoFailed, match=r"queue u/1: 0 messages"):
        compare(result({**sent.queues, "u/1": [1, 5]}, sent), 3)
    with pytest.raises(DemoFailed, match=r"3 messages were acknowledged, not 4"):
        compare(result(sent.queues, sent), 4)
