"""Where groups begin, what they filter, what administration sees and changes."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from e2e.groups.members import QUEUES, drain, numbers, send
from support.harness import StoreProcess, eventually

from silomq import (
    Admin,
    Consumer,
    GroupConsumer,
    IllegalArgument,
    IllegalMessage,
    Producer,
    Sql,
    StoreClosed,
)
from silomq.store.config import offsets
from silomq.store.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {"consumer_release_timeout_ms": 700}


def test_where_a_new_group_begins(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    time.sleep(0.01)
    between = int(time.time() * 1000)
    time.sleep(0.01)
    send(store, topic, 48)
    moment = dt.datetime.fromtimestamp(between / 1000, dt.UTC)
    starts: list[tuple[Any, int]] = [
        *(("earliest", 88), ("latest", 0), (between, 48), (0, 88), (2**50, 0)),
        *((moment, 48), (moment.isoformat(), 48), ("1h ago", 88)),
    ]
    for number, (start, count) in enumerate(starts):
        with GroupConsumer(store.path, f"start{number}", topic, start=start) as member:
            assert len(drain(member)[0]) == count, start
    for wrong in (-1, "middle"):
        with pytest.raises(ValueError, match=r"neither .earliest. nor .latest., and .* is no time"):
            GroupConsumer(store.path, "wrong", topic, start=wrong)


def test_members_get_what_their_filter_matches(store: StoreProcess, topic: str) -> None:
    with Producer(store.path) as producer:
        for i in range(60):
            tags = ("Aa", "BB", "c")[i % 3]  # the first two have one hash
            producer.send(topic, b"%d" % i, tags=tags, properties={"price": str(i)})
    with GroupConsumer(store.path, "tags", {topic: "BB || d"}, start="earliest") as member:
        assert sorted(drain(member)[0]) == [i for i in range(60) if i % 3 == 1]
    with GroupConsumer(store.path, "sql", {topic: Sql("price >= 50")}, start="earliest") as member:
        assert sorted(drain(member)[0]) == list(range(50, 60))
    with GroupConsumer(store.path, "none", {topic: "zzz"}, start="earliest") as member:
        assert drain(member) == [[]]
        with Admin(store.path) as admin:
            eventually(
                lambda: (
                    drain(member) == [[]] and all(q.lag == 0 for q in admin.group("none").queues)
                ),
                "what a filter passes over is no lag",
            )


def test_bad_groups_and_filters_are_refused(store: StoreProcess, topic: str) -> None:
    with pytest.raises(IllegalMessage, match="topic nowhere does not exist"):
        GroupConsumer(store.path, "g", "nowhere")
    with pytest.raises(IllegalMessage, match="group"):
        GroupConsumer(store.path, "no/group", topic)
    with pytest.raises(ValueError, match="at least one topic"):
        GroupConsumer(store.path, "g", [])
    with GroupConsumer(store.path, "alike", {topic: "a"}):
        for other in ({"subscribe": {topic: "b"}}, {"subscribe": topic, "model": "broadcasting"}):
            with pytest.raises(IllegalMessage, match="stop them first"):
                GroupConsumer(store.path, "alike", **other)
    member = GroupConsumer(store.path, "bad", topic)
    with pytest.raises(ValueError, match="at least 1"):
        member.poll(0)
    member.close()
    with pytest.raises(StoreClosed, match="closed"):
        member.poll(1, 0.1)


def test_what_comes_back_says_where_it_was_sent(store: StoreProcess, topic: str) -> None:
    send(store, topic, 2)
    with GroupConsumer(store.path, "origin", topic, start="earliest", auto_ack=False) as member:
        messages = [*member.poll(1, 5.0), *member.poll(1, 5.0)]
        assert [m.origin_topic for m in messages] == [topic, topic]
        assert member.nack(messages[0], delay_level=1).topic == SCHEDULE_TOPIC
        assert member.nack(messages[1], delay_level=-1).topic == "%DLQ%origin"
        (again,) = member.poll(2, 10.0)
        assert (again.topic, again.origin_topic) == ("%RETRY%origin", topic)
        assert again.reconsume_times == 1
    with Consumer(store.path, "%DLQ%origin") as consumer:
        (dead,) = consumer.poll(2, 5.0)
        assert (dead.topic, dead.origin_topic) == ("%DLQ%origin", topic)


def test_a_group_is_set_to_another_offset(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    with (
        Admin(store.path) as admin,
        GroupConsumer(store.path, "reset", topic, start="earliest") as member,
    ):
        assert len(drain(member)[0]) == 80
        done = threading.Event()
        again: list[int] = []

        def poll() -> None:
            while not done.is_set():
                again.extend(numbers(member.poll(10, 0.01)))

        reader = threading.Thread(target=poll)
        reader.start()
        admin.reset_offset("reset", topic, dict.fromkeys(range(QUEUES), 5))
        eventually(lambda: len(again) >= 40, "the last half again")
        done.set()
        reader.join()
        assert sorted(again) == list(range(40, 80))
        for wrong in ({99: 0}, {0: -1}, {0: 11}):
            with pytest.raises((IllegalMessage, IllegalArgument)):
                admin.reset_offset("reset", topic, wrong)
    admin = Admin(store.path)
    admin.reset_offset("reset", topic, {0: 0})
    assert {
        q.offset for q in admin.group("reset").queues if q.queue_id == 0 and q.topic == topic
    } == {0}
    admin.close()
    store.crash()
    store.start()
    with GroupConsumer(store.path, "reset", topic) as member:
        assert sorted(drain(member)[0]) == [i for i in range(80) if i % QUEUES == 0]


def test_rocketmq_finds_the_offsets_and_groups(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", flush_consumer_offset_interval_ms=100) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", QUEUES)
        send(store, "t", 80)
        config = store.path / "config"
        with GroupConsumer(store.path, "g", "t", start="earliest") as member:
            assert len(drain(member)[0]) == 80
            eventually(
                lambda: (
                    offsets.load(config / "consumerOffset.json")[0].get(("t", "g"))
                    == dict.fromkeys(range(QUEUES), 10)
                ),
                "the file follows",
            )
        groups, problems = offsets.load_groups(config / "subscriptionGroup.json")
        assert not problems
        assert groups["g"].retry_max_times == 16
        store.stop()
        good = (config / "consumerOffset.json").read_bytes()
        (config / "consumerOffset.json.bak").write_bytes(good)
        (config / "consumerOffset.json").write_bytes(b"{ this is not")
        store.start()
        assert "consumerOffset.json" in store.log()
        with GroupConsumer(store.path, "g", "t") as member:
            assert drain(member) == [[]]


def test_a_group_behind_the_end_goes_on_at_the_end(tmp_path: Path) -> None:
    """A power cut may take messages back that a group has acknowledged."""
    with StoreProcess(tmp_path / "store", default_topic_queue_nums=1) as store:
        with Producer(store.path) as producer:
            producer.send("t", b"0")
        with GroupConsumer(store.path, "g", "t", start="earliest") as member:
            assert len(member.poll(10, 10.0)) == 1
        store.stop()
        path = str(store.path / "config" / "consumerOffset.json")
        saved, _ = offsets.load(path)
        assert saved["t", "g"] == {0: 1}
        saved["t", "g"] = {0: 7}
        offsets.save(path, saved)
        store.start()
        with Producer(store.path) as producer:
            producer.send("t", b"1")
        with GroupConsumer(store.path, "g", "t") as member:
            assert numbers(member.poll(10, 10.0)) == [1]


def test_progress_as_administration_sees_it(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    with GroupConsumer(store.path, "seen", topic, start="earliest", auto_ack=False) as member:
        messages = member.poll(80, 5.0)
        while len(messages) < 80:
            messages += member.poll(80, 1.0)
        member.ack([m for m in messages if m.queue_id < 2])
        with Admin(store.path) as admin:
            assert "seen" in {group.name for group in admin.groups()}
            shown = admin.group("seen")
            lags = {q.queue_id: q.lag for q in shown.queues if q.topic == topic}
            assert lags == {i: 0 if i < 2 else 10 for i in range(QUEUES)}
            assert len(shown.members) == 1
            with pytest.raises(IllegalMessage, match="has members"):
                admin.delete_group("seen")
    with Admin(store.path) as admin:
        eventually(lambda: not admin.group("seen").members, "it left")
        admin.delete_group("seen")
        with pytest.raises(IllegalMessage, match="no consumer group seen"):
            admin.group("seen")
    json.dumps([q.offset for q in shown.queues])
