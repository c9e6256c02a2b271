"""What RocketMQ does with a store that has declared holes: it loads it, reads all the rest, hands
out the stand-ins, appends, and recovers after a crash; our readers are still told of the holes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import RocketMQ, require
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL, load

from silomq import Consumer, CorruptRange, Producer
from silomq.store.disk.paths import file_name
from silomq.tools.holes.hole_filling import LOST
from silomq.tools.repair import apply, plan_holes

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import MessageView

SIZE = 1 << 16
SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": SIZE, "max_message_size": 16384}
COUNT = 900


@pytest.mark.parametrize(
    "turns",
    [
        [("4.9.8", "--halt"), ("5.3.3", "stop")],
        pytest.param([("5.3.3", "stop"), ("5.3.3", "--halt")], marks=LONG),
        pytest.param([("5.3.3", "--halt")] * 2, marks=LONG),
        pytest.param([("4.9.8", "stop"), ("4.9.8", "--halt")], marks=LONG),
        pytest.param([("4.9.8", "--halt")] * 2, marks=LONG),
    ],
    ids=lambda turns: ", ".join(map(" ".join, turns)),
)
def test_rocketmq_goes_on_with_declared_holes(tmp_path: Path, turns: list[tuple[str, str]]) -> None:
    """Releases of RocketMQ in turn: the second one also after the first one's crash."""
    for release, _ in turns:
        require(release)
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        places = []
        with Producer(store.path) as producer:
            for i in range(COUNT):
                sent = producer.send("orders", b"message %d" % i + b"x" * 100, queue=0)
                places.append(sent.physical_offset)
        store.stop()
        (store.path / "commitlog" / file_name(SIZE)).unlink()
        with (store.path / "commitlog" / file_name(0)).open("r+b") as file:
            file.seek(places[7] + 4)
            file.write(b"damaged")
        settings = load(store.path, {**SMALL, **SETTINGS})
        apply(str(store.path), settings, plan_holes(str(store.path), settings))
        holes = [(places[7], places[8]), (SIZE, 2 * SIZE)]
        lost = [n for n, at in enumerate(places) if any(a <= at < b for a, b in holes)]

        for release, theirs in turns:
            rocketmq = RocketMQ(release, tmp_path, {**SMALL, **SETTINGS})
            said = rocketmq.run(store.path, "start", "dump", "-", "append", 5, 3, theirs)
            assert said.all("wrong") == []
            read = {
                line["queueOffset"]: line
                for line in said.all("msg")
                if line["topic"] == "orders" and line["queueId"] == 0 and line["inCq"]
            }
            assert sorted(read)[: len(places)] == list(range(len(places)))
            for number, place in enumerate(places):
                if number in lost:
                    assert LOST in read[number]["properties"]
                    assert any(a <= read[number]["commitLogOffset"] < b for a, b in holes)
                else:
                    assert read[number]["commitLogOffset"] == place

        store.start()
        store.await_dispatch()
        raised: list[tuple[int, int, tuple[int, int] | None]] = []
        found: list[MessageView] = []
        with Consumer(store.path, "orders", queues=[0]) as consumer:
            while len(found) < len(places) - len(lost):
                try:
                    found += consumer.poll(100)
                except CorruptRange as error:
                    raised.append((error.start, error.end, error.queue_offsets))
        assert [view.body for view in found[: len(places) - len(lost)]] == [
            b"message %d" % n + b"x" * 100 for n in range(COUNT) if n not in lost
        ]
        assert raised == [(*holes[0], (7, 8)), (*holes[1], (lost[1], lost[-1] + 1))]
        store.stop()
