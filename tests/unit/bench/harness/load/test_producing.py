"""The schedule of an open loop, and what becomes of messages when the client stalls."""

from __future__ import annotations

import itertools
import os
import threading
import time
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load._fates import Fates
from silomq.bench.harness.load.account import SECOND, Account
from silomq.bench.harness.load.bodies import Messages
from silomq.bench.harness.load.latencies import add
from silomq.bench.harness.load.numbers import Numbers
from silomq.bench.harness.load.output import Output
from silomq.bench.harness.load.producing import Producing, Schedule
from silomq.bench.harness.load.protocol import Done, Order, Said, Sizes, Tick

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
        if len(self.sent) == 5:
            self.fates.refused(due, "it was refused")
        else:
            self.fates.stored(due)

    def wait(self, timeout_s: float) -> None: ...

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        self.sent += bodies

    batch_oneway = batch

    def finish(self, timeout_s: float) -> None: ...

    def close(self) -> None: ...


class Slow(Stalling):
    """A client that answers in `wait` only, three at a time, and refuses some at once."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.open: deque[int] = deque()
        self.most = self.refused = 0

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        if len(self.sent) % 100 == 50:
            self.sent.append(b"")
            self.refused += 1
            raise ConnectionError("not now")
        self.sent.append(body)
        self.open.append(due)
        self.most = max(self.most, len(self.open))

    def wait(self, timeout_s: float) -> None:
        assert self.fates is not None
        assert 0 <= timeout_s <= 0.02
        for _ in range(min(3, len(self.open))):
            self.fates.stored(self.open.popleft())


class Silent(Stalling):
    """A client that never answers, and has errors when it is asked."""

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        self.sent.append(body)

    def wait(self, timeout_s: float) -> None:
        raise TimeoutError("nothing comes")


def order(folder: Path, call: str, rate: float, warm_up_s: int = 0, **more: Any) -> Order:
    payload = folder / "payload"
    payload.write_bytes(b"x" * 4096)
    return Order(
        "produce", "none", {}, 0, 1, ["a"], 1, 1, warm_up_s, 1,
        call=call, rate=rate, batch=10, window=4, sizes=Sizes([64]), payload=str(payload), **more,
    )  # fmt: skip


def work(client: Stalling, wanted: Order) -> list[Said]:
    """What a producer says that does an order."""
    theirs, ours = os.pipe()
    messages = Messages(wanted)
    account = Account(Output(ours), messages.size_of)
    numbers = Numbers(wanted) if wanted.check else None
    fates = Fates(account.publish, account.durable, account.failed, numbers)
    client.fates = fates
    start = time.monotonic_ns()
    account.begin(start, threading.Event())
    Producing(wanted, client, fates, account, start).run(messages)
    if numbers is not None:
        numbers.write()
    account.end()
    os.close(ours)
    with open(theirs, "rb") as lines:
        return [msgspec.json.decode(line, type=Said) for line in lines]


def run(
    folder: Path, call: str, rate: float, stall_s: float = 0.0, warm_up_s: int = 0
) -> tuple[Stalling, list[Said]]:
    """A producer's work of one second behind the warm-up, with what it said."""
    client = Stalling(stall_s)
    return client, work(client, order(folder, call, rate, warm_up_s))


def latencies_in(said: list[Said]) -> Counts:
    """All latencies of sends."""
    whole = Counts()
    for one in said:
        if isinstance(one, Tick):
            add(whole, one.publish)
    return whole


def test_a_stall_shows_in_each_message_that_it_delays_and_none_is_left_out(tmp_path: Path) -> None:
    client, said = run(tmp_path, "send", 1000.0, stall_s=0.3)
    assert len(client.sent) == 1000
    dues = [int.from_bytes(body[:8], "big") for body in client.sent]
    assert {after - before for before, after in itertools.pairwise(dues)} == {10**6}
    whole = latencies_in(said)
    assert whole.total == 1000
    # 300 messages were due while the client stood still: half of them for 150 ms or more.
    half, longest = whole.percentiles((85, 100))
    assert half >= 140_000
    assert longest >= 299_000
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
    for call in ("batch", "batch-oneway", "oneway", "async"):
        client, said = run(tmp_path, call, 0.0)
        done = said[-1]
        assert isinstance(done, Done)
        errors = 1 if call == "async" else 0
        assert done.messages == len(client.sent) - errors
        ticks = [one for one in said if isinstance(one, Tick)]
        assert sum(one.messages for one in ticks) == done.messages
        assert [one.second for one in ticks] == list(range(len(ticks)))
        assert sum(one.bytes for one in ticks) == 64 * done.messages


@pytest.mark.parametrize("rate", [0.0, 2000.0])
def test_a_window_is_kept_and_each_message_has_a_fate(tmp_path: Path, rate: float) -> None:
    client = Slow()
    said = work(client, order(tmp_path, "async", rate))
    done = said[-1]
    assert isinstance(done, Done)
    assert client.most == (4 if rate == 0 else client.most)
    assert client.most <= 4
    assert client.refused > 3
    assert (done.errors, done.first_error) == (client.refused, "ConnectionError('not now')")
    assert done.messages == latencies_in(said).total == len(client.sent) - client.refused
    stamps = [int.from_bytes(body[:8], "big") for body in client.sent if body]
    assert stamps == sorted(stamps)


def test_messages_without_an_answer_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silomq.bench.harness.load.producing._END_S", 0.1)
    client = Silent(0.0)
    began = time.monotonic()
    said = work(client, order(tmp_path, "async", 0.0, messages=3))
    assert time.monotonic() - began >= 0.1
    done = said[-1]
    assert isinstance(done, Done)
    assert done.messages == 0
    # Those of `wait` come every 20 ms.
    assert 3 + 1 <= done.errors <= 3 + 6
    assert done.first_error == "TimeoutError('nothing comes')"


def test_numbers_are_those_that_were_stored(tmp_path: Path) -> None:
    client = Slow()
    work(client, order(tmp_path, "async", 0.0, messages=200, check=str(tmp_path)))
    bodies = [body for body in client.sent if body]
    assert len(bodies) == 198
    with (tmp_path / "produce--0").open("rb") as file:
        stored = array("Q", file.read())
    assert list(stored) == [int.from_bytes(body[8:16], "big") for body in bodies]
