"""Light queues (LMQ): a message is put into the queues of its INNER_MULTI_DISPATCH too."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import check_files
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.small_settings import SMALL, load, options

from silomq import (
    Admin,
    Consumer,
    CorruptRange,
    GroupConsumer,
    IllegalMessage,
    Message,
    MessageView,
    Producer,
    StoreReader,
)
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

LIGHT: dict[str, Any] = {**SMALL, "enable_lmq": "true", "enable_multi_dispatch": "true"}
ONE, TWO = "%LMQ%one", "%LMQ%two"


def into(*names: str) -> dict[str, str]:
    return {"INNER_MULTI_DISPATCH": ",".join(names)}


def bodies(store: Path, topic: str) -> list[bytes]:
    """All messages of a topic, each checked against its place."""
    with Consumer(store, topic, check_crc=True) as consumer:
        return [view.body for view in consumer.poll(1000, timeout=10)]


def test_messages_are_in_their_light_queues(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **LIGHT) as store:
        with Producer(store.path) as producer:
            producer.send("t", b"1", properties=into(ONE))
            producer.send("t", b"2")
            producer.send("u", Message(b"3", properties=into(ONE, TWO)))
            batch: list[Message | bytes]
            batch = [Message(b"4", properties=into(TWO)), b"5", Message(b"6", properties=into(ONE))]
            producer.send_batch("t", batch)
        store.await_dispatch()
        assert bodies(store.path, ONE) == [b"1", b"3", b"6"]
        assert bodies(store.path, TWO) == [b"3", b"4"]
        assert sorted(bodies(store.path, "t")) == [b"1", b"2", b"4", b"5", b"6"]
        with StoreReader(store.path) as reader:
            found = reader.get_message(ONE, 0, 0).messages
            assert [(view.body, view.topic, view.queue_offset) for view in found] == [
                (b"1", "t", 0), (b"3", "u", 1), (b"6", "t", 2),
            ]  # fmt: skip
        with Admin(store.path) as admin:
            assert [t.write_queues for t in admin.topics() if t.topic == ONE] == [1]
        store.stop()
        check_files(store)
        # They are in no file of topics, so that RocketMQ finds those of a store as its own.
        assert "LMQ" not in (store.path / "config/topics.json").read_text()
        store.start()
        with Producer(store.path) as producer:
            producer.send("t", b"7", properties=into(TWO, ONE))
        store.await_dispatch()
        assert bodies(store.path, ONE) == [b"1", b"3", b"6", b"7"]
        assert bodies(store.path, TWO) == [b"3", b"4", b"7"]


def test_a_group_consumes_a_light_queue(tmp_path: Path) -> None:
    """Its progress is that in the light queue, not in the queues in which the messages lie."""
    with StoreProcess(tmp_path / "store", **LIGHT) as store:
        with Producer(store.path) as producer:
            for i in range(6):
                properties = into(ONE) if i % 2 else None
                producer.send("t", b"%d" % i, queue=i % 3, properties=properties)
        with GroupConsumer(store.path, "g", [ONE, "t"], start="earliest") as member:
            found: list[MessageView] = []
            while len(found) < 9:
                found += member.poll(100, timeout=10)
            light = [view for view in found if view.queue == (ONE, 0)]
            assert [view.body for view in light] == [b"1", b"3", b"5"]
            assert [view.queue_offset for view in light] == [0, 1, 2]
            assert {view.topic for view in light} == {"t"}
            member.nack(light[1], delay_level=1)
            (again,) = member.poll(1, timeout=10)
            assert (again.body, again.topic) == (b"3", "%RETRY%g")
            assert "INNER_MULTI_QUEUE_OFFSET" not in again.properties
        with GroupConsumer(store.path, "h", [ONE], start="earliest", auto_ack=False) as member:
            light = member.poll(100, timeout=10)
            assert member.ack(light[:2]) == 2
        with GroupConsumer(store.path, "h", [ONE], start="earliest") as member:
            assert [view.body for view in member.poll(100, timeout=10)] == [b"5"]
        with GroupConsumer(store.path, "i", [ONE], start="earliest") as member:
            iterator = iter(member)
            assert [next(iterator).body for _ in range(3)] == [b"1", b"3", b"5"]


def test_a_reader_may_come_before_the_first_message(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store", **LIGHT) as store,
        Consumer(store.path, ONE) as consumer,
        Producer(store.path) as producer,
    ):
        producer.send("t", b"x", properties=into(ONE))
        assert [view.body for view in consumer.poll(10, timeout=10)] == [b"x"]


@pytest.mark.parametrize("delay", [{"delay_level": 1}, {"delay_ms": 300}])
def test_a_delayed_message_comes_into_light_queues_when_it_is_delivered(
    tmp_path: Path, delay: dict[str, Any]
) -> None:
    with StoreProcess(tmp_path / "store", **LIGHT) as store, Producer(store.path) as producer:
        producer.send("t", b"late", properties=into(ONE, TWO), **delay)
        producer.send("t", b"soon", properties=into(ONE))
        eventually(lambda: len(bodies(store.path, ONE)) == 2, "the delivery")
        assert bodies(store.path, ONE) == [b"soon", b"late"]
        assert bodies(store.path, TWO) == [b"late"]


@pytest.mark.parametrize(
    ("topic", "names", "why"),
    [
        ("t", "one", "no light queue's name"),
        ("t", f"{ONE},", "no light queue's name"),
        ("t", f"{ONE},{ONE}", "each of them once"),
        ("t", "%LMQ%a/b", "'/' at position 6"),
        ("t", "%LMQ%" + "x" * 123, "at most 127"),
        ("t", ",".join(f"%LMQ%{i}" for i in range(129)), "up to 128"),
    ],
)
def test_names_that_cannot_be_light_queues(
    store: StoreProcess, topic: str, names: str, why: str
) -> None:
    with Producer(store.path) as producer, pytest.raises(IllegalMessage, match=why):
        producer.send(topic, b"x", properties={"INNER_MULTI_DISPATCH": names})


def test_a_store_without_light_queues_refuses_them(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **{**LIGHT, "enable_lmq": "false"}) as store:
        with Producer(store.path) as producer:
            with pytest.raises(IllegalMessage, match="enable_lmq and enable_multi_dispatch"):
                producer.send("t", b"x", properties=into(ONE))
            with pytest.raises(IllegalMessage, match="set by the store"):
                producer.send("t", b"x", properties={"INNER_MULTI_QUEUE_OFFSET": "0"})
        assert not (store.path / "consumequeue" / ONE).exists()


def test_unanswered_messages_find_their_light_queues_again(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store", **LIGHT) as store,
        Producer(store.path, on_restart="retry") as producer,
    ):
        producer.send("t", b"0", properties=into(ONE))
        store.crash()
        futures = [producer.send_async("t", b"%d" % i, properties=into(ONE)) for i in range(1, 5)]
        store.start()
        assert [future.result(timeout=30).queue_offset is not None for future in futures]
        store.await_dispatch()
        assert list(dict.fromkeys(bodies(store.path, ONE))) == [b"%d" % i for i in range(5)]


@pytest.mark.parametrize("lost", ["nothing", "a light queue", "all queues"])
def test_light_queues_after_a_kill(tmp_path: Path, lost: str) -> None:
    """No message is missing or there twice, and the next offsets follow from the queues, also when
    dispatch made them anew.
    """
    sent: dict[str, list[bytes]] = {ONE: [], TWO: []}

    def send(path: Path, first: int) -> None:
        with Producer(path) as producer:
            for i in range(first, first + 200):
                names = (ONE, TWO) if i % 3 == 0 else (ONE,)
                producer.send("t", b"%d" % i, properties=into(*names))
                for name in names:
                    sent[name].append(b"%d" % i)

    with StoreProcess(tmp_path / "store", **LIGHT) as store:
        for first in (0, 200, 400):
            send(store.path, first)
            store.crash()
            if first == 200 and lost != "nothing":
                gone = "consumequeue" if lost == "all queues" else f"consumequeue/{TWO}"
                shutil.rmtree(store.path / gone)
            store.start()
        store.await_dispatch()
        for name, wanted in sent.items():
            assert bodies(store.path, name) == wanted
        store.stop()
        check_files(store)
        assert verify(store.path, load(store.path, LIGHT)).sound


@pytest.mark.parametrize("how", ["--rebuild", "--holes"])
def test_light_queues_after_a_repair(tmp_path: Path, how: str) -> None:
    """They are made anew from the log. A message that the log has lost is a hole in each queue in
    which it was.
    """
    with StoreProcess(tmp_path / "store", **LIGHT) as store:
        with Producer(store.path) as producer:
            sent = [
                producer.send("t", b"%d" % i, queue=0, properties=into(*(ONE, TWO)[i % 2 :]))
                for i in range(20)
            ]
        store.await_dispatch()
        store.stop()
        if how == "--holes":
            with (store.path / "commitlog" / f"{0:020d}").open("r+b") as log:
                log.seek(sent[7].physical_offset)
                log.write(bytes(50))
        silo("repair", str(store.path), how, "--yes", *options(LIGHT))
        assert verify(store.path, load(store.path, LIGHT)).sound
        store.start()
        for name, wanted in (ONE, range(0, 20, 2)), (TWO, range(20)):
            found: list[bytes] = []
            with Consumer(store.path, name, check_crc=True) as consumer:
                if how == "--holes" and name == TWO:
                    found += [view.body for view in consumer.poll(100, timeout=10)]
                    with pytest.raises(CorruptRange) as hole:
                        consumer.poll(100, timeout=10)
                    assert hole.value.queue_offsets == (7, 8)
                    found.append(b"7")
                found += [view.body for view in consumer.poll(100, timeout=10)]
            assert found == [b"%d" % i for i in wanted]
