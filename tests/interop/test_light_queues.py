"""Light queues (LMQ) of RocketMQ 5.3: its store is opened, read, continued and handed back, after a
clean stop and after a kill, both ways.
"""

from __future__ import annotations

import itertools
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import RocketMQ, Said, require
from support.checking.files import check_files
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL, load

from silomq import Consumer, GroupConsumer, Producer, StoreReader
from silomq.pipeline.source.snapshot import take
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "5.3.3"
SETTINGS: dict[str, Any] = {**SMALL, "mapped_file_size_consume_queue": 40960}
LIGHT = {**SETTINGS, "enable_lmq": "true", "enable_multi_dispatch": "true"}
ONE, TWO = "%LMQ%one", "%LMQ%two"


class Exchange:
    """A store that RocketMQ and we use in turn, and what was put into each light queue."""

    def __init__(self, folder: Path) -> None:
        require(RELEASE)
        self.folder, self.path = folder, folder / "store"
        light = ("enableLmq=true", "enableMultiDispatch=true")
        self.rocketmq = RocketMQ(RELEASE, folder, SETTINGS, *light)
        self.bodies: dict[str, list[bytes]] = defaultdict(list)
        self._groups = itertools.count()

    def by_rocketmq(self, end: str, *more: str) -> Said:
        said = self.rocketmq.run(self.path, "start", "feature", *more, end)
        for i in range(6):
            for name in (ONE, TWO) if i % 2 == 0 else (ONE,):
                self.bodies[name].append(b"message %d" % i)
        return said

    def by_us(self, count: int = 5) -> None:
        with Producer(self.path) as producer:
            for i in range(count):
                names = (TWO, ONE) if i % 2 else (TWO,)
                producer.send(
                    "featured",
                    b"ours %d" % i,
                    queue=0,
                    properties={"INNER_MULTI_DISPATCH": ",".join(names)},
                )
                for name in names:
                    self.bodies[name].append(b"ours %d" % i)

    def check(self) -> None:
        """Every reader finds what was put into the light queues, in order and once."""
        for name, wanted in self.bodies.items():
            with Consumer(self.path, name, check_crc=True) as consumer:
                assert [view.body for view in consumer.poll(1000, timeout=10)] == wanted
            # A group that has all already would wait for more.
            group = f"g{next(self._groups)}"
            with GroupConsumer(self.path, group, [name], start="earliest") as member:
                assert [view.body for view in member.poll(1000, timeout=10)] == wanted
            with StoreReader(self.path) as reader:
                found = reader.get_message(name, 0, 0, 1000).messages
                assert [view.body for view in found] == wanted[: len(found)]

    def check_said(self, said: Said) -> None:
        """RocketMQ reads the same, and each message says the place at which it lies."""
        assert said.all("wrong") == []
        bodies = {line["commitLogOffset"]: line["bodySha256"] for line in said.all("msg")}
        lines = {line["topic"]: line for line in said.all("light")}
        assert set(lines) == set(self.bodies)
        for name, wanted in self.bodies.items():
            line = lines[name]
            assert (line["minOffset"], line["maxOffset"]) == (0, len(wanted))
            assert len({bodies[place] for place in line["places"]}) == len(set(wanted))
            assert line["places"] == sorted(line["places"])
            for number, offsets in enumerate(line["said"]):
                assert number in map(int, offsets.split(","))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("--halt", "stop"),
        pytest.param("stop", "--halt", marks=LONG),
        pytest.param("stop", "stop", marks=LONG),
        pytest.param("--halt", "--halt", marks=LONG),
    ],
)
def test_light_queues_are_exchanged(tmp_path: Path, first: str, second: str) -> None:
    """Those that RocketMQ has filled are served without the settings too, also when queues are made
    anew. With the settings either goes on where the other has stopped, or was killed.
    """
    exchange = Exchange(tmp_path)
    exchange.by_rocketmq(first)
    with StoreProcess(exchange.path, **SETTINGS) as store:
        exchange.check()
        store.crash()
        if first == "--halt":
            shutil.rmtree(exchange.path / "consumequeue")
    with StoreProcess(exchange.path, **LIGHT) as store:
        exchange.check()
        exchange.by_us()
        store.crash()
        store.start()
        exchange.by_us()
        store.await_dispatch()
        exchange.check()
        store.stop()
        check_files(store)
    exchange.check_said(exchange.by_rocketmq(second, "dump", "-"))
    with StoreProcess(exchange.path, **LIGHT) as store:
        exchange.check()
        exchange.by_us()
        store.await_dispatch()
        exchange.check()
        take(exchange.path)
        store.crash()
    exchange.check_said(exchange.rocketmq.run(exchange.path, "start", "dump", "-", "stop"))
    assert verify(exchange.path, load(exchange.path, SETTINGS)).sound
