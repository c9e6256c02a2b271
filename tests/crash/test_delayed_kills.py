"""Delayed messages come exactly once, and never early, whoever is killed meanwhile: schedule
between each two of its steps, schedule and append at any time, everything at once.
"""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.deliveries import collect
from support.harness import LONG, StoreProcess, eventually, kill_now
from support.kill_points import ROOT, Fault, deaths, points_in

from silomq import Producer, StoreError

if TYPE_CHECKING:
    from pathlib import Path

#: The passes of the short form, and those that the long form adds.
POINTS = {
    "schedule:put": ((40,), (1,)),
    "schedule:answered": ((1,), (7,)),
    "schedule:marked": ((7,), (1,)),
    "schedule:published": ((20,), (1,)),
    "schedule:entered": ((1,), (20,)),
}
ROUNDS = 8
LONG_ROUNDS = 200
SMALL_STEPS = 60
SHORT_S = 4


class Load:
    """Sends delayed messages and knows when each is due."""

    def __init__(self, store: StoreProcess) -> None:
        self.store = store
        self.due: dict[bytes, int] = {}
        self.unknown: set[bytes] = set()

    def send(self, count: int) -> None:
        """Levels and times in turn. A message whose send failed may have been stored or not."""
        with Producer(self.store.path, timeout=15.0) as producer:
            for _ in range(count):
                number = len(self.due) + len(self.unknown)
                body = b"%06d" % number
                at = int(time.time() * 1000) + 100 + number % 7 * 150
                try:
                    if number % 2:
                        producer.send("t", body, deliver_at=at, queue=number % 4)
                        self.due[body] = at
                    else:
                        sent = producer.send("t", body, delay_level=1, queue=number % 4)
                        self.due[body] = sent.store_timestamp + 1000
                except StoreError:
                    self.unknown.add(body)
                    return
                time.sleep(0.001)

    def check(self, print_as: str) -> None:
        found = collect(self.store.path, "t", self.due, timeout=60, grace=1.5)
        for body in self.unknown & found.times.keys():
            assert len(found.times.pop(body)) == 1, body
        found.check(self.due, print_as=print_as)


def die_at(fault_build: Path, folder: Path, point: str, passes: int) -> None:
    """A load during which the process of `point` dies there once."""
    fault = Fault(fault_build, folder, point, passes).arm()
    with StoreProcess(folder / "store", environ=fault.environ) as store:
        load = Load(store)
        load.send(200)
        load.check(f"{point} {passes}")
        fault.assert_happened()
        assert store.starts(fault.actor) == 2


@pytest.mark.parametrize(("point", "passes"), deaths(POINTS))
def test_schedule_dies_between_two_steps(
    tmp_path: Path, fault_build: Path, point: str, passes: int
) -> None:
    die_at(fault_build, tmp_path, point, passes)


@pytest.mark.parametrize("point", ["append:results", "append:wrote", "append:tail"])
def test_append_dies_over_a_delivery(tmp_path: Path, fault_build: Path, point: str) -> None:
    """The 250th time: most messages were sent by then, and are being delivered."""
    die_at(fault_build, tmp_path, point, 250)


def test_an_unanswered_delivery_is_not_sent_again(tmp_path: Path, fault_build: Path) -> None:
    """Schedule dies behind it while append is frozen. Its successor waits for the answer."""
    fault = Fault(fault_build, tmp_path, "schedule:put").arm()
    with StoreProcess(tmp_path / "store", environ=fault.environ) as store:
        load = Load(store)
        load.send(1)
        with Producer(store.path) as producer:
            at = int(time.time() * 1000) + 300
            producer.send("t", b"late", deliver_at=at)
            load.due[b"late"] = at
        pid = store.pid("schedule")
        append = store.kill("append", signal.SIGSTOP)
        eventually(fault.happened, "schedule has died")
        eventually(lambda: store.pid("schedule") not in (0, pid), "schedule is replaced")
        for _ in range(3):  # it has looked three times, or has sent everything again
            store.await_beat("schedule")
        kill_now(append, signal.SIGCONT)
        load.check("unanswered")


def test_all_deliveries_of_a_shortened_level_are_recognised(
    tmp_path: Path, fault_build: Path
) -> None:
    """The queue's entries still have the old due times. Schedule dies behind more deliveries than
    its successor recognises at once, and append answers them all.
    """
    fault = Fault(fault_build, tmp_path, "schedule:put", 1000)
    with StoreProcess(tmp_path / "store", environ=fault.environ, message_delay_level="2h") as store:
        bodies = [b"%04d" % i for i in range(1500)]
        with Producer(store.path) as producer:
            sent = [producer.send_async("t", body, delay_level=1) for body in bodies]
            stored = [future.result().store_timestamp for future in sent]
        store.stop()
        store.settings["message_delay_level"] = f"{SHORT_S}s"
        fault.arm()
        store.start()
        time.sleep(max(0.0, stored[0] / 1000 + SHORT_S - 0.5 - time.time()))
        append = store.kill("append", signal.SIGSTOP)
        eventually(fault.happened, "schedule has died")
        kill_now(append, signal.SIGCONT)
        due = {body: at + 1000 * SHORT_S for body, at in zip(bodies, stored, strict=True)}
        collect(store.path, "t", due, timeout=60, grace=1.5).check(due)


def test_every_point_of_schedule_is_tried() -> None:
    assert points_in((ROOT / "actors" / "schedule").glob("*.py")) == set(POINTS)


@pytest.mark.parametrize("rounds", [pytest.param(ROUNDS), pytest.param(LONG_ROUNDS, marks=LONG)])
def test_kills_at_any_time(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    with StoreProcess(tmp_path / "store") as store:
        load = Load(store)
        for _ in range(rounds):
            load.send(SMALL_STEPS)
            victims = chance.choice((["schedule"], ["append"], ["schedule", "append"], ["reput"]))
            for victim in victims:
                store.kill(victim)
            time.sleep(chance.random() * 0.3)
        eventually(store.all_ready, "all are replaced")
        load.check(f"{rounds} kills")


@pytest.mark.parametrize("rounds", [pytest.param(3), pytest.param(60, marks=LONG)])
def test_everything_is_killed_at_once(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    store = StoreProcess(tmp_path / "store")
    with store:
        load = Load(store)
        for _ in range(rounds):
            load.send(SMALL_STEPS * 3)
            time.sleep(chance.random())
            store.crash()
            store.start()
        load.check(f"{rounds} deaths of all")
