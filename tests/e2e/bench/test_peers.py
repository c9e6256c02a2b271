"""Each peer that is installed here: what is sent by each of its calls is read, as the workers'
protocol says. `make bench-peers` installs the peers; those that are not here are skipped.
"""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import time
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest
from support.harness import LONG

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load.latencies import add
from silomq.bench.harness.load.numbers import lost_and_doubled
from silomq.bench.harness.load.protocol import Done, Order, Ready, Said, Sizes, Tick
from silomq.bench.harness.targets.peers.catalog import peers
from silomq.bench.harness.targets.target import Durability, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.bench.harness.targets.target import Running, Target

TARGETS = {one.name: one for one in peers()}
#: These take more than ten seconds to start.
SLOW = {"kafka", "rocketmq-broker"}
TOPICS = ["first", "second"]
QUEUES = 2
MESSAGES = 480
PATIENCE_S = 120.0
DECODER = msgspec.json.Decoder(Said)


def params() -> list[object]:
    return [pytest.param(name, marks=LONG if name in SLOW else ()) for name in TARGETS]


@pytest.fixture(params=params())
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.chdir(request.config.rootpath)
    found = TARGETS[request.param]
    if request.param != "sqlite" and (why := found.missing()):
        pytest.skip(why)
    return found


@contextlib.contextmanager
def worker(server: Running, order: Order) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that has its order."""
    with subprocess.Popen(
        server.worker(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
            yield process
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def said(process: subprocess.Popen[bytes]) -> Said:
    assert process.stdout is not None
    line: Said = DECODER.decode(process.stdout.readline())
    return line


def begin(process: subprocess.Popen[bytes]) -> int:
    """Awaits that it is ready, and tells it the start."""
    ready = said(process)
    assert isinstance(ready, Ready)
    assert ready.versions
    assert process.stdin is not None
    start = time.monotonic_ns() + 50_000_000
    process.stdin.write(b"%d\n" % start)
    process.stdin.flush()
    return start


def work(server: Running, order: Order) -> tuple[list[Tick], Done]:
    """Does an order to its end. Ticks are numbered from 0, and `Done` sums them up."""
    with worker(server, order) as process:
        begin(process)
        ticks: list[Tick] = []
        while isinstance(one := said(process), Tick):
            ticks.append(one)
        assert isinstance(one, Done)
    assert process.returncode == 0
    assert [tick.second for tick in ticks] == list(range(len(ticks)))
    assert sum(tick.messages for tick in ticks) == one.messages
    assert (one.errors, one.first_error) == (0, "")
    return ticks, one


def order(server: Running, folder: Path, **more: object) -> Order:
    payload = folder / "payload"
    payload.write_bytes(bytes(range(256)) * 40)
    check = folder / "check"
    check.mkdir(exist_ok=True)
    fields = {
        "role": "produce", "target": "peer", "endpoint": server.endpoint, "index": 0, "workers": 1,
        "topics": TOPICS, "queues": QUEUES, "seed": 1, "warm_up_s": 0.0, "duration_s": PATIENCE_S,
        "window": 32, "batch": 16, "messages": MESSAGES, "sizes": Sizes([64, 1000], [3, 1]),
        "payload": str(payload), "tags": ["red", "blue"], "keys": 3, "check": str(check),
        **more,
    }  # fmt: skip
    return msgspec.convert(fields, Order)


def counted(ticks: list[Tick], kind: str) -> int:
    """How many latencies were kept, all of them plausible."""
    total = Counts()
    for tick in ticks:
        add(total, getattr(tick, kind))
    assert total.percentiles([100])[0] <= PATIENCE_S * 1e6
    return total.total


def test_all_that_is_sent_is_read(target: Target, tmp_path: Path) -> None:
    before = {one.pid for one in psutil.process_iter()}
    with target.start(tmp_path, Wanted(TOPICS, QUEUES, file_size=64 << 20)) as server:
        facts = server.facts
        assert facts.durability in {Durability.PROCESS_MEMORY, Durability.SYSTEM_MEMORY}
        assert all(psutil.pid_exists(pid) for pid in server.pids().values())
        calls = sorted(facts.send_calls - {"oneway"})
        for index, call in enumerate(calls):
            ticks, done = work(server, order(server, tmp_path, call=call, index=index))
            assert done.messages == counted(ticks, "publish") == MESSAGES
            assert 64 * MESSAGES < sum(tick.bytes for tick in ticks) < 1000 * MESSAGES
        whole = MESSAGES * len(calls)
        reads = [("poll", "party"), ("poll", "")]
        reads += [("listen", "other")] if "listen" in facts.read_calls else []
        for call, group in reads:
            read = order(server, tmp_path, role="consume", call=call, group=group, drain=whole)
            ticks, done = work(server, read)
            assert done.messages == counted(ticks, "end_to_end") == whole
            sent = sorted((tmp_path / "check").glob("produce-*"))
            assert lost_and_doubled(sent, [tmp_path / "check" / f"consume-{group}-0"]) == (0, 0)
    left = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    assert left == []


def test_synced_sends_by_the_clock(target: Target, tmp_path: Path) -> None:
    wanted = Wanted(TOPICS, QUEUES, flush="sync", file_size=64 << 20)
    with target.start(tmp_path, wanted) as server:
        assert server.facts.durability == Durability.DISK
        paced = order(server, tmp_path, call="send", rate=50.0, messages=0, duration_s=1.5)
        ticks, done = work(server, paced)
        assert done.messages == 75
        assert len(ticks) >= 2
        assert counted(ticks, "delay") == counted(ticks, "publish") == 75


@pytest.mark.parametrize("role", ["produce", "consume"])
def test_a_worker_ends_when_its_input_does(target: Target, tmp_path: Path, role: str) -> None:
    with target.start(tmp_path, Wanted(TOPICS, QUEUES, file_size=64 << 20)) as server:
        call = "send" if role == "produce" else "poll"
        endless = order(
            server, tmp_path, role=role, call=call, messages=0, group="party", rate=20.0
        )
        with worker(server, endless) as process:
            begin(process)
            first = said(process)
            assert isinstance(first, Tick)
            assert process.stdin is not None
            process.stdin.close()
            while isinstance(last := said(process), Tick):
                pass
            assert isinstance(last, Done)
            assert process.wait(20) == 0
    if role == "produce":
        written = (tmp_path / "check" / "produce-party-0").read_bytes()
        numbers = struct.unpack(f"={len(written) // 8}Q", written)
        assert numbers == tuple(range(last.messages))


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for one in peers():
        if one.name != "sqlite":
            assert one.missing().endswith("is missing (make bench-peers).")
    assert json.dumps(TARGETS["sqlite"].missing()) == '""'
