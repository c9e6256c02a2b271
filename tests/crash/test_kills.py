"""kill -9 of every actor under load: every message exactly once, in order, and no error reaches a
producer.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import statistics
import threading
import time
from typing import TYPE_CHECKING, Self

import pytest
from support.checking.messages import check_store, read_topic
from support.checking.sent import Sent
from support.harness import LONG, StoreProcess, eventually, kill_now
from support.load.messages import body_of
from support.load.producers import Producers

from silomq import Admin, Producer
from silomq.shm.control import ACTORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOPICS = ("alpha", "beta", "gamma")
PROBE = 99  # the probing producer's number
PAUSE_S = 0.12


class Probe:
    """Measures how long service is away: from a kill to the next acknowledged send, and until the
    killed actor's successor serves.
    """

    def __init__(self, store: StoreProcess, topic: str) -> None:
        self.store = store
        self.topic = topic
        self.producer = Producer(store.path, timeout=10.0)
        self.count = 0
        self.send()
        self.acks_ms: list[float] = []
        self.ready_ms: dict[str, list[float]] = {actor: [] for actor in ACTORS}

    def send(self) -> None:
        self.producer.send(self.topic, b"probe %d" % self.count)
        self.count += 1

    def kill(self, *actors: str) -> None:
        """Kills these actors at the same instant and measures."""
        pids = {actor: self.store.pid(actor) for actor in actors}
        began = time.monotonic()
        for pid in pids.values():
            kill_now(pid)
        self.send()
        self.acks_ms.append((time.monotonic() - began) * 1000)
        waiting = dict(pids)
        while waiting:
            for actor, pid in list(waiting.items()):
                if self.store.is_ready(actor, but_not=pid):
                    self.ready_ms[actor].append((time.monotonic() - began) * 1000)
                    del waiting[actor]
            assert time.monotonic() < began + 20, f"not replaced: {waiting}\n{self.store.log()}"
            time.sleep(0.0005)

    def report(self) -> list[str]:
        every = [t for times in self.ready_ms.values() for t in times]
        all_in_all = (
            f"service resumes: median {statistics.median(every):.1f} ms, worst {max(every):.1f} ms,"
            f" {len(every)} kills (until the successor serves; next acknowledged send: median"
            f" {statistics.median(self.acks_ms):.2f} ms, worst {max(self.acks_ms):.1f} ms)"
        )
        lines = [
            f"  {actor:<9}median {statistics.median(times):6.1f} ms, worst {max(times):6.1f} ms,"
            f" {len(times)} kills"
            for actor, times in self.ready_ms.items()
            if times
        ]
        return [all_in_all, *lines]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Lines that a test wants read: printed at its end, past pytest's capturing."""
    lines: list[str] = []
    yield lines
    with capsys.disabled():
        print("", *lines, sep="\n")


def _check(store: StoreProcess, sent: Sent, probe: Probe | None = None) -> None:
    assert sent.acks
    if probe is not None:
        with contextlib.closing(probe.producer):
            assert probe.producer.rejected == 0
    # The probe's messages have a topic of their own, and are counted there.
    records = check_store(store, sent, TOPICS, beside="probe" if probe else "")
    if probe is not None:
        bodies = [r.body for r in records if r.topic == "probe"]
        assert bodies == [b"probe %d" % i for i in range(probe.count)]


def _victims(count: int, seed: int) -> list[str]:
    """Each actor in turn, then at random."""
    chance = random.Random(seed)
    return [*ACTORS, *chance.choices(ACTORS, k=count - len(ACTORS))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mode", "kills"),
    [
        ("ASYNC_FLUSH", 20),
        ("SYNC_FLUSH", 7),
        pytest.param("ASYNC_FLUSH", 200, marks=LONG),
        pytest.param("SYNC_FLUSH", 200, marks=LONG),
    ],
)
def test_kills_in_turn_and_at_random(tmp_path: Path, mode: str, kills: int, say: list[str]) -> None:
    with StoreProcess(tmp_path / "store", flush_disk_type=mode) as store:
        probe = Probe(store, "probe")
        with Producers(store, TOPICS, rate=500.0 if kills > 20 else 2000.0) as producers:
            producers.await_flow()
            for victim in _victims(kills, seed=7):
                time.sleep(PAUSE_S)
                probe.kill(victim)
            sent = producers.finish()
        say += [f"{mode}, {len(sent.acks) + len(sent.oneway)} messages", *probe.report()]
        _check(store, sent, probe)
        median = statistics.median(t for times in probe.ready_ms.values() for t in times)
        assert median < 100, "service must resume within 100 ms (median)"


def test_several_actors_die_at_the_same_instant(tmp_path: Path, say: list[str]) -> None:
    groups = [("append", "reput", "registry"), ("append", "flush", "allocate"), ACTORS]
    with StoreProcess(tmp_path / "store") as store:
        probe = Probe(store, "probe")
        with Producers(store, TOPICS) as producers:
            producers.await_flow()
            for group in groups * 3:
                time.sleep(2 * PAUSE_S)
                probe.kill(*group)
            sent = producers.finish()
        say += ["several at once", *probe.report()[:1]]
        _check(store, sent, probe)


class Background:
    """Repeats an action in a thread, with a growing number, until the block ends; its error is the
    test's.
    """

    def __init__(self, action: Callable[[int], None]) -> None:
        self.action = action
        self.done = 0
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for number in itertools.count():
                if self.stopping.is_set():
                    return
                self.action(number)
                self.done += 1
        except Exception as error:  # noqa: BLE001 # raised again in the test's thread
            self.error = error

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join()
        if self.error is not None:
            raise self.error


def test_registry_dies_while_topics_are_made(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", max_topics=4000, max_queues=8000) as store:
        with Admin(store.path) as admin, Producer(store.path, timeout=10.0) as producer:

            def make(number: int) -> None:
                if number < 1900:
                    admin.create_topic(f"made-{number}", 2)
                    producer.send(f"sent-{number}", b"%d" % number)

            with Background(make) as makers:
                for _ in range(10):
                    time.sleep(PAUSE_S)
                    store.replace("registry")
            topics = {topic.topic: topic for topic in admin.topics()}
        assert makers.done > 20
        done = min(makers.done, 1900)
        expected = {f"{kind}-{i}" for kind in ("made", "sent") for i in range(done)}
        assert set(topics) == expected
        assert all(topics[f"made-{i}"].write_queues == 2 for i in range(done))
        store.await_dispatch()
        for i in range(done):
            assert [view.body for view in read_topic(store.path, f"sent-{i}")] == [b"%d" % i]
        store.stop()
        saved = json.loads((store.path / "config" / "topics.json").read_text())
        assert set(saved["topicConfigTable"]) >= expected


@pytest.mark.parametrize(
    "victims", [("append",), ("registry",), ("append", "registry")], ids="+".join
)
def test_actors_die_while_sessions_come_and_go(tmp_path: Path, victims: tuple[str, ...]) -> None:
    """Sessions that are opened and closed around the kills get all their messages in, and no
    error; others go on.
    """
    with StoreProcess(tmp_path / "store") as store:
        sent = Sent()

        def come_and_go(number: int) -> None:
            with Producer(store.path, ring_size=65536, timeout=10.0) as producer:
                session = 100 + number  # what two sessions send one-way has no order
                result = producer.send("alpha", body_of(session, 0), queue=0)
                sent.answered(result, session, 0)
                producer.send_oneway("alpha", body_of(session, 1), queue=1)
                sent.published(session, 1, "alpha", 1)

        with Producers(store, TOPICS, count=1) as producers:
            producers.await_flow(100)
            with Background(come_and_go) as sessions:
                for _ in range(10):
                    time.sleep(PAUSE_S)
                    old = {victim: store.kill(victim) for victim in victims}
                    for victim, pid in old.items():
                        store.await_successor(victim, pid)
            assert sessions.done > 20
            sent.add(producers.finish())
        eventually(lambda: store.control.load("sessions") == 0, "dead sessions are let go", 5)
        check_store(store, sent, TOPICS)
