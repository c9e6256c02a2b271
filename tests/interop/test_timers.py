"""RocketMQ 5 takes over a store whose timers we have delivered, and we one whose timers it has
delivered: none comes again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import RocketMQ, Said, require
from support.deliveries import collect
from support.harness import LONG, StoreProcess, eventually
from support.small_settings import SMALL

from silomq import Producer
from silomq.store.delay import rocketmq_timers
from silomq.store.disk.paths import StoreFolders

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "5.3.3"
SETTINGS: dict[str, Any] = {**SMALL, "mapped_file_size_consume_queue": 40960}
#: RocketMQ looks for due timers ten times a second.
A_WHILE_MS = 2000


def send(store: Path, name: str, count: int, **delay: Any) -> list[bytes]:
    bodies = [b"%s %d" % (name.encode(), i) for i in range(count)]
    with Producer(store) as producer:
        for body in bodies:
            producer.send("t", body, queue=0, **delay)
    return bodies


def timers_from(store: Path) -> int:
    """The queue offset at which RocketMQ will go on with the timers."""
    with StoreFolders(store) as folders:
        return rocketmq_timers.read(folders)["master_queue_offset"]


def rocketmq(folder: Path, *commands: object) -> Said:
    return RocketMQ(RELEASE, folder, SETTINGS).run(folder / "store", "start", *commands)


def in_topic(said: Said) -> int:
    """How many messages RocketMQ finds in the topic of the timers' destination."""
    assert said.all("wrong") == []
    return sum(line["topic"] == "t" for line in said.all("msg"))


# Timers that change hands are of a store that was stopped.
@pytest.mark.parametrize(
    "killed", [pytest.param(False, marks=LONG), True], ids=["stopped", "killed"]
)
def test_rocketmq_delivers_no_timer_again(tmp_path: Path, *, killed: bool) -> None:
    require(RELEASE)
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        bodies = send(store.path, "soon", 20, delay_ms=300)
        send(store.path, "later", 1, delay_ms=3_600_000)
        collect(store.path, "t", bodies)
        if killed:  # it writes at most every 10 s
            eventually(lambda: timers_from(store.path) == 20, "they are durable")
            store.crash()
        else:
            store.stop()
    assert timers_from(store.path) == 20
    said = rocketmq(tmp_path, "timers", 0, A_WHILE_MS, "dump", "-", "--halt")
    timers = said.one("timers")
    assert (timers["began"], timers["delivered"], timers["entered"]) == (20, 0, 21)
    assert in_topic(said) == 20


# In the tests behind this one RocketMQ stops.
@pytest.mark.parametrize("theirs", [pytest.param("stop", marks=LONG), "--halt"])
def test_timers_that_change_hands_are_delivered_once(tmp_path: Path, theirs: str) -> None:
    """Some here, some by RocketMQ, some here again, with the state that RocketMQ left between."""
    require(RELEASE)
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        ours = send(store.path, "ours", 10, delay_ms=300)
        theirs_due = int(time.time() * 1000) + 2500
        bodies = ours + send(store.path, "theirs", 10, deliver_at=theirs_due)
        collect(store.path, "t", ours)
        store.stop()
        assert rocketmq(tmp_path, "timers", 10, 500, theirs).one("timers")["delivered"] == 10
        assert (store.path / "timerwheel").is_file()
        store.start()
        assert not (store.path / "timerlog").exists()
        assert not (store.path / "timerwheel").exists()
        collect(store.path, "t", bodies).check(dict.fromkeys(bodies, 0))
        bodies += send(store.path, "ours again", 10, delay_ms=300)
        collect(store.path, "t", bodies).check(dict.fromkeys(bodies, 0))
        store.stop()
    said = rocketmq(tmp_path, "timers", 0, A_WHILE_MS, "dump", "-", "--halt")
    assert said.one("timers")["delivered"] == 0
    assert in_topic(said) == 30


def test_timers_behind_one_that_waits_are_delivered_again_by_rocketmq(tmp_path: Path) -> None:
    """All that its checkpoint can say is one place in the queue. No message is lost."""
    require(RELEASE)
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        (waits,) = send(store.path, "waits", 1, delay_ms=6_000)
        bodies = send(store.path, "soon", 5, delay_ms=300)
        collect(store.path, "t", bodies)
        store.stop()
        said = rocketmq(tmp_path, "timers", 6, 500, "dump", "-", "stop")
        assert said.one("timers")["began"] == 0
        assert in_topic(said) == 11
        store.start()
        came = collect(store.path, "t", [*bodies, waits])
        assert {body: len(times) for body, times in came.times.items()} == {
            **dict.fromkeys(bodies, 2),
            waits: 1,
        }


def test_rocketmq_obeys_our_cancels_and_we_obey_its_format(tmp_path: Path) -> None:
    """A cancel that we stored, before the one who delivers is RocketMQ, and before we are."""
    require(RELEASE)
    assert any(cancels_were_obeyed(tmp_path / f"{lead_s}", lead_s) for lead_s in (4, 15, 50))


def cancels_were_obeyed(folder: Path, lead_s: int) -> bool:
    """False if RocketMQ was not up 2 s before the messages were due, `lead_s` after they were sent:
    what it finds due at its start it delivers without a look at cancels.
    """
    folder.mkdir()
    with StoreProcess(folder / "store", **SETTINGS) as store:
        at = int(time.time() * 1000) + 1000 * lead_s
        with Producer(store.path) as producer:
            sent = [producer.send("t", b"%d" % i, deliver_at=at + i) for i in range(10)]
            late = [producer.send("t", b"late %d" % i, deliver_at=at + 6000) for i in range(4)]
            for result in (*sent[5:], *late[2:]):
                producer.cancel(result)
        store.stop()
        said = rocketmq(folder, "timers", 5, 1000, "--halt").one("timers")
        if said["started"] > at - 2000:
            return False
        assert said["delivered"] == 5
        store.start()
        bodies = [*(b"%d" % i for i in range(5)), b"late 0", b"late 1"]
        collect(store.path, "t", bodies).check(dict.fromkeys(bodies, 0))
    return True


def test_timers_that_rocketmq_has_rolled_are_delivered_once(tmp_path: Path) -> None:
    """It copies a message that waits longer than its wheel is long; here, 4 s instead of 2 days."""
    require(RELEASE)
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        at = int(time.time() * 1000) + 20_000
        bodies = send(store.path, "rolled", 5, deliver_at=at)
        store.stop()
        rolling = RocketMQ(RELEASE, tmp_path, SETTINGS, "timerRollWindowSlot=4")
        said = rolling.run(store.path, "start", "timers", 0, 6500, "dump", "-", "stop")
        assert said.one("timers")["delivered"] == 0
        copies = [line for line in said.all("msg") if "TIMER_ROLL_TIMES" in line["properties"]]
        assert len(copies) >= 5
        store.start()
        collect(store.path, "t", bodies).check(dict.fromkeys(bodies, at))
