"""The setting `message_delay_level`: other levels, more, fewer; and messages that wait when it
changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.deliveries import collect
from support.harness import StoreProcess

from silomq import Consumer, Producer
from silomq.client.groups.retry import send_back
from silomq.store.config import delay_offsets
from silomq.store.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from pathlib import Path


def test_the_setting_says_how_long_a_level_waits(tmp_path: Path) -> None:
    """Also for retries, in the queue's entries, and for levels above the last."""
    with (
        StoreProcess(tmp_path / "store", message_delay_level="3s 1s") as store,
        Producer(store.path) as producer,
    ):
        due = {}
        for body, level, delay_ms in ((b"one", 1, 3000), (b"two", 2, 1000), (b"nine", 9, 1000)):
            sent = producer.send("t", body, delay_level=level)
            assert sent.queue_id == min(level, 2) - 1
            due[body] = sent.store_timestamp + delay_ms
        found = collect(store.path, "t", due)
        found.check(due)
        back = send_back(producer, found.views[0], "g")  # level 3, were there so many
        assert back.queue_id == 1
        again = {found.views[0].body: back.store_timestamp + 1000}
        collect(store.path, "%RETRY%g", again).check(again)
        with Consumer(store.path, SCHEDULE_TOPIC) as consumer:
            assert {v.queue_id for v in consumer.poll(100, 5)} == {0, 1}
        store.stop()
    offsets, _ = delay_offsets.load(store.path / "config/delayOffset.json")
    assert offsets == {1: 1, 2: 3}


def test_a_setting_with_more_levels_gives_the_topic_more_queues(tmp_path: Path) -> None:
    """A store that was made with 18 levels, as RocketMQ's are."""
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            producer.send("t", b"before", delay_level=1)
            collect(store.path, "t", [b"before"])
        store.stop()
        store.settings["message_delay_level"] = "1h " * 19 + "1s"
        store.start()
        with Producer(store.path) as producer:
            sent = producer.send("t", b"level 20", delay_level=20)
            assert sent.queue_id == 19
            due = {b"before": 0, b"level 20": sent.store_timestamp + 1000}
            collect(store.path, "t", due).check(due)
        store.crash()
        store.start()
        collect(store.path, "t", due).check(due)


def test_waiting_messages_follow_a_shorter_level(tmp_path: Path) -> None:
    """RocketMQ would deliver them at once; here each waits for the level of today after it was
    stored. Messages of levels that the setting no longer has count as of the last one.
    """
    with StoreProcess(tmp_path / "store", message_delay_level="1d 1d 1d") as store:
        with Producer(store.path) as producer:
            sent = {
                b"%d" % i: producer.send("t", b"%d" % i, delay_level=i % 3 + 1).store_timestamp
                for i in range(9)
            }
        store.stop()
        store.settings["message_delay_level"] = "4s 4s"
        store.start()
        due = {body: stored + 4000 for body, stored in sent.items()}
        with Producer(store.path) as producer:
            # Behind the waiting ones in the same queue, and not held up by their old due times.
            due[b"new"] = producer.send("t", b"new", delay_level=1).store_timestamp + 4000
        late = collect(store.path, "t", due).check(due)
        assert late[-1] < 30_000


def test_waiting_messages_keep_the_due_time_of_a_level_that_grew(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", message_delay_level="2s") as store:
        with Producer(store.path) as producer:
            sent = producer.send("t", b"x", delay_level=1)
        store.stop()
        store.settings["message_delay_level"] = "1d"
        store.start()
        due = {b"x": sent.store_timestamp + 2000}
        collect(store.path, "t", due).check(due)
