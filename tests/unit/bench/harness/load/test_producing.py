"""The schedule of an open loop, and what becomes of messages when the client stalls."""

from __future__ import annotations

import itertools
import os
import threading
import time
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from silomq.bench.harness.load.account import SECOND, Account
from silomq.bench.harness.load.bodies import Messages
from silomq.bench.harness.load.latencies import add, histogram
from silomq.bench.harness.load.producing import Fates, Producing, Schedule
from silomq.bench.harness.load.protocol import Done, Order, Said, Sizes, Tick
from silomq.bench.harness.load.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path


@given(st.integers(1, 64), st.floats(0.1, 1e6), st.integers(0, 1000))
def test_all_workers_together_have_the_rate(workers: int, rate: float, n: int) -> None:
    start = 10**15
    dues = sorted(
        Schedule(start, rate / workers, index, workers).due(i)
        for index in range(workers)
        for i in (n, n + 1)
    )
    period = SECOND / rate
    gaps = [after - before for before, after in itertools.pairwise(dues)]
    assert all(abs(gap - period) <= 2 for gap in gaps)


class Stalling:
    """A client that answers at once, and stands still once."""

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self.sent: list[bytes] = []
        self.fates: Fates | None = None

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        if len(self.sent) == 10:
            time.sleep(self._stall_s)
        self.sent.append(body)

    oneway = send

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        self.send(topic, body, tag, key)
        assert self.fates is not None
        self.fates(due, "" if len(self.sent) != 5 else "it was refused")

    def wait(self, timeout_s: float) -> None: ...

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        self.sent += bodies

    def finish(self, timeout_s: float) -> None: ...

    def close(self) -> None: ...


def run(
    folder: Path, call: str, rate: float, stall_s: float = 0.0, warm_up_s: int = 0
) -> tuple[Stalling, list[Said]]:
    """A producer's work of one second behind the warm-up, with what it said."""
    payload = folder / "payload"
    payload.write_bytes(b"x" * 4096)
    order = Order(
        "produce", "none", {}, 0, 1, ["a"], 1, 1, warm_up_s, 1,
        call=call, rate=rate, batch=10, window=4, sizes=Sizes([64]), payload=str(payload),
    )  # fmt: skip
    theirs, ours = os.pipe()
    recorder = Recorder(ours)
    os.close(ours)
    client, fates = Stalling(stall_s), Fates()
    client.fates = fates
    messages = Messages(order)
    start = time.monotonic_ns()
    fates.account = account = Account(recorder, start, threading.Event(), messages.size_of)
    Producing(order, client, fates, account, start).run(messages)
    account.end()
    recorder.close()
    with open(theirs, "rb") as lines:
        return client, [msgspec.json.decode(line, type=Said) for line in lines]


def test_a_stall_shows_in_each_message_that_it_delays_and_none_is_left_out(tmp_path: Path) -> None:
    client, said = run(tmp_path, "send", 1000.0, stall_s=0.3)
    assert len(client.sent) == 1000
    dues = [int.from_bytes(body[:8], "big") for body in client.sent]
    assert {after - before for before, after in itertools.pairwise(dues)} == {10**6}
    whole = histogram()
    for one in said:
        if isinstance(one, Tick):
            add(whole, one.publish)
    assert whole.get_total_count() == 1000
    # 300 messages were due while the client stood still: half of them for 150 ms or more.
    assert whole.get_value_at_percentile(85) >= 140_000
    assert whole.get_value_at_percentile(100) >= 299_000
    done = said[-1]
    assert isinstance(done, Done)
    assert (done.messages, done.errors) == (1000, 0)


def test_what_is_late_at_the_end_of_the_warm_up_is_left_out(tmp_path: Path) -> None:
    for call in ("send", "async"):
        client, _ = run(tmp_path, call, 1000.0, stall_s=1.3, warm_up_s=1)
        dues = [int.from_bytes(body[:8], "big") for body in client.sent]
        steps = [after - before for before, after in itertools.pairwise(dues)]
        assert [step for step in steps if step != 10**6], "some are left out"
        assert len(dues) == len(set(dues))
        assert 1000 < len(dues) < 1100, "all of the measured second, and those before the stall"
        assert dues[-1000] - dues[0] >= 990 * 10**6


def test_a_refused_message_is_an_error_and_no_latency(tmp_path: Path) -> None:
    client, said = run(tmp_path, "async", 500.0)
    done = said[-1]
    assert isinstance(done, Done)
    assert (done.messages, done.errors, done.first_error) == (499, 1, "it was refused")
    assert len(client.sent) == 500


def test_batches_and_closed_loops(tmp_path: Path) -> None:
    for call in ("batch", "oneway", "async"):
        client, said = run(tmp_path, call, 0.0)
        done = said[-1]
        assert isinstance(done, Done)
        errors = 1 if call == "async" else 0
        assert done.messages == len(client.sent) - errors
        ticks = [one for one in said if isinstance(one, Tick)]
        assert sum(one.messages for one in ticks) == done.messages
        assert [one.second for one in ticks] == list(range(len(ticks)))
        assert sum(one.bytes for one in ticks) == 64 * done.messages
