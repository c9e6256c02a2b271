"""Staged batches reach the log exactly once, whoever is killed: real stores, real kills."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")

from spark.publishing import TOPIC, bodies_in, column_in, exactly, publisher, stage
from support.harness import StoreProcess, eventually

from silomq import Consumer, Producer
from silomq.client.producing._sender import session_of
from silomq.pipeline.sink.ledger import (
    Begun,
    Ledger,
    SinkBusy,
    State,
    begun_files,
    staged_of,
    staging_of,
)
from silomq.pipeline.sink.publish import Target, key_prefix, publish
from silomq.pipeline.sink.rows import BadRow
from silomq.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 30.0
#: The number of no session that is open: the store's own have the first ones, clients' are times.
ENDED = 99


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "store", flush_commit_log_thorough_interval_ms=500) as found:
        yield found


@pytest.fixture
def sinks(tmp_path: Path) -> Path:
    return tmp_path / "sinks"


def target(store: StoreProcess, sinks: Path, sink: str = "s", **options: object) -> Target:
    return Target(str(store.path), sinks, sink, **options)  # type: ignore[arg-type]


def dispatched(store: StoreProcess) -> list[bytes]:
    eventually(lambda: store.control.load("dispatched") == store.control.load("wrote"), "dispatch")
    return bodies_in(store.path)


def numbered(count: int, tag: str = "") -> list[bytes]:
    return [b"%s %d" % (tag.encode(), i) for i in range(count)]


def state_of(sinks: Path, sink: str = "s") -> State:
    with Ledger(sinks, sink, 5) as ledger:
        return ledger.state


def test_a_batch_is_published_once(store: StoreProcess, sinks: Path) -> None:
    for batch in range(3):
        file = stage(sinks, "s", batch, numbered(2500, str(batch)))
        assert publish(target(store, sinks), batch, [file], {TOPIC: -1}) == 2500
    # Spark says it again when it died before it wrote down that the batch is done.
    for batch in (2, 1):
        file = stage(sinks, "s", batch, numbered(2500, str(batch)))
        assert publish(target(store, sinks), batch, [file], {TOPIC: -1}) == 0
    exactly(dispatched(store), [b for batch in range(3) for b in numbered(2500, str(batch))])
    assert state_of(sinks) == State(done=2)
    assert staged_of(sinks, "s", 99) == []
    wanted = {f"{key_prefix('s', b)}{row:012X}" for b in range(3) for row in range(1, 2501)}
    assert set(column_in(store.path, "message_id")) == wanted


def test_sinks_do_not_meet(store: StoreProcess, sinks: Path) -> None:
    for sink in ("one", "two"):
        file = stage(sinks, sink, 0, numbered(10))
        assert publish(target(store, sinks, sink), 0, [file], {TOPIC: -1}) == 10
    assert len(dispatched(store)) == 20


def test_what_a_row_asks_for_arrives(store: StoreProcess, sinks: Path) -> None:
    columns = {
        "tags": "t", "keys": "a b", "properties": [("x", "y")], "queueId": 1, "flag": 7,
        "bornTimestamp": 1_700_000_000_123,
    }  # fmt: skip
    file = stage(sinks, "s", 0, [b"body"], **columns)
    publish(target(store, sinks, durable=True), 0, [file], {TOPIC: 1})
    assert store.control.load("flushed") == store.control.load("wrote"), "durable was asked for"
    assert dispatched(store) == [b"body"]
    with Consumer(store.path, TOPIC) as consumer:
        (message,) = consumer.poll(10)
        assert (message.tags, message.keys, message.queue_id) == ("t", ["a", "b"], 1)
        assert (message.flag, message.born_timestamp) == (7, 1_700_000_000_123)
        assert message.properties["x"] == "y"


@pytest.mark.parametrize("delay", [1, "time"])
def test_delayed_rows_come_later_and_once(
    store: StoreProcess, sinks: Path, delay: int | str
) -> None:
    due = delay if isinstance(delay, int) else int(time.time() * 1000) + 1500
    file = stage(sinks, "s", 0, numbered(50), delay=due)
    # A predecessor has begun, and sent everything: half may wait, half may be delivered.
    begin(store, sinks, file)
    with Producer(store.path) as producer:
        session_of(producer).number_keys(key_prefix("s", 0), 1)
        for body in numbered(50):
            producer.send(TOPIC, body, delay_level=1 if delay == 1 else 0,
                          deliver_at=None if delay == 1 else due)  # fmt: skip
    assert bodies_in(store.path) == []
    assert publish(target(store, sinks), 0, [file], {TOPIC: -1}) == 0
    eventually(lambda: len(bodies_in(store.path)) == 50, "they are delivered")
    exactly(bodies_in(store.path), numbered(50))


def begin(store: StoreProcess, sinks: Path, file: str) -> None:
    with Ledger(sinks, "s", 5) as ledger:
        ledger.save(State(-1, Begun(0, [file], store.control.load("wrote"), ENDED)))


def test_any_rows_may_be_there_already(store: StoreProcess, sinks: Path) -> None:
    count, there = 3000, set(random.Random(5).sample(range(3000), 1200))
    file = stage(sinks, "s", 0, numbered(count))
    begin(store, sinks, file)
    with Producer(store.path) as producer:
        for row in sorted(there):
            session_of(producer).number_keys(key_prefix("s", 0), row + 1)
            producer.send_async(TOPIC, numbered(count)[row])
        producer.flush(10)
    # The replay has rows of its own; those of the batch that was begun count.
    other = stage(sinks, "s", 0, numbered(17, "other"))
    assert publish(target(store, sinks), 0, [other], {TOPIC: -1}) == count - len(there)
    exactly(dispatched(store), numbered(count))
    assert staged_of(sinks, "s", 0) == []


def test_frames_of_a_dead_publisher_are_waited_for(store: StoreProcess, sinks: Path) -> None:
    """Append is frozen while a publisher dies with messages in its ring."""
    bodies = numbered(20_000)
    file = stage(sinks, "s", 0, bodies)
    with Producer(store.path) as producer:
        producer.open_topic(TOPIC)
    store.kill("append", signal.SIGSTOP)
    dead = publisher(store, sinks, "s", 0, file)
    eventually(lambda: begun_files(sinks, "s") == [file], "it has begun")
    time.sleep(0.5)
    dead.kill()
    dead.wait()
    heir = publisher(store, sinks, "s", 0, file)
    time.sleep(1.0)
    assert heir.poll() is None, "it waits"
    store.kill("append", signal.SIGCONT)
    assert heir.wait(WAIT_S) == 0
    exactly(dispatched(store), bodies)


def publish_with_kills(store: StoreProcess, sinks: Path, kills: int, count: int) -> int:
    """Kills publishers while they publish, until `kills` have died with a part in the log."""
    rng = random.Random(7)
    died = batch = 0
    wanted: list[bytes] = []
    while died < kills:
        bodies = numbered(count, f"batch {batch}")
        wanted += bodies
        while True:
            file = stage(sinks, "s", batch, bodies)
            before = store.control.load("records")
            process = publisher(store, sinks, "s", batch, file)
            if died < kills:
                part = before + rng.randrange(count // 2)
                while process.poll() is None and store.control.load("records") <= part:
                    time.sleep(0.0005)
                process.kill()
            if process.wait(WAIT_S) == 0:
                break
            assert process.returncode == -signal.SIGKILL
            died += 0 < store.control.load("records") - before < count
        batch += 1
    exactly(dispatched(store), wanted)
    assert state_of(sinks) == State(done=batch - 1)
    assert staged_of(sinks, "s", batch) == []
    return died


def test_killed_publishers(tmp_path: Path, sinks: Path, *, long_forms: bool) -> None:
    # Many files: what a predecessor has published lies in several.
    with StoreProcess(tmp_path / "store") as store:
        kills = 60 if long_forms else 6
        assert publish_with_kills(store, sinks, kills, 20_000) >= kills


def test_a_killed_store_is_no_end(tmp_path: Path, sinks: Path) -> None:
    bodies = numbered(60_000)
    store = StoreProcess(tmp_path / "store")
    with store:
        file = stage(sinks, "s", 0, bodies)
        process = publisher(store, sinks, "s", 0, file)
        eventually(lambda: store.control.load("records") > 5000, "a part is there")
        store.crash()
        assert process.wait(WAIT_S) == 1, "its store is gone"
        assert state_of(sinks).begun is not None
        store.start()
        there = len(dispatched(store))
        assert 5000 < there < len(bodies)
        assert publish(target(store, sinks), 0, [], {}) == len(bodies) - there
        exactly(dispatched(store), bodies)


def test_one_publisher_at_a_time(store: StoreProcess, sinks: Path) -> None:
    file = stage(sinks, "s", 0, numbered(1))
    with Ledger(sinks, "s", 1), pytest.raises(SinkBusy, match=r"another process for 0\.1 s"):
        publish(target(store, sinks, timeout_s=0.1), 0, [file], {TOPIC: -1})
    assert publish(target(store, sinks), 0, [file], {TOPIC: -1}) == 1


def test_queues_are_counted_before_anything_is_sent(store: StoreProcess, sinks: Path) -> None:
    file = stage(sinks, "s", 0, numbered(5), queueId=77)
    with pytest.raises(BadRow, match=rf"queueId 77: topic {TOPIC} has queues 0 to \d"):
        publish(target(store, sinks), 0, [file], {TOPIC: 77})
    assert store.control.load("records") == 0
    assert state_of(sinks) == State()


def test_what_cannot_be_told_is_said(tmp_path: Path, sinks: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        file = stage(sinks, "s", 0, numbered(5))
        begin(store, sinks, file)
        (staging_of(sinks, "s") / file).unlink()
        with pytest.raises(FileNotFoundError, match=r"staged/s/0\."):
            publish(target(store, sinks), 0, [], {})
        (sinks / "s.json").write_text("{")
        with pytest.raises(StoreError, match=r"s\.json is no ledger"):
            publish(target(store, sinks), 0, [], {})
