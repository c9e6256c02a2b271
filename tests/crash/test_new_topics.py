"""Topics that were made a moment before all processes died come back as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.harness import StoreProcess

from silomq import Admin, Consumer, Producer
from silomq.store.config import topics as topics_json

if TYPE_CHECKING:
    from pathlib import Path

TRIES = 20


def crash_before_the_save(store: StoreProcess) -> bool:
    """Makes a topic, and kills all. False if topics.json was saved before."""
    with Producer(store.path) as producer:
        producer.send("fresh", b"x", queue=2)
        store.crash()
    saved, _ = topics_json.load(str(store.path / "config" / "topics.json"))
    return "fresh" not in saved.topics


def test_a_topic_that_was_not_saved_has_all_its_queues(tmp_path: Path) -> None:
    """A start finds records of one queue, and a setting that has changed meanwhile."""
    for number in range(TRIES):
        store = StoreProcess(tmp_path / f"store{number}", default_topic_queue_nums=9)
        with store:
            if crash_before_the_save(store):
                break
    else:
        raise AssertionError("topics.json was always saved before the crash")
    store.settings.update(default_topic_queue_nums=3)
    with store, Admin(store.path) as admin:
        queues = {topic.topic: topic.write_queues for topic in admin.topics()}
        assert queues["fresh"] == 9
        with Consumer(store.path, "fresh") as consumer:
            assert [one.body for one in consumer.poll(5, timeout=20)] == [b"x"]
