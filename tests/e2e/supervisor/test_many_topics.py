"""A store with as many topics as it is shipped for: 20,000, with 4 queues each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, Producer
from silomq.shm.control import ACTORS
from silomq.store.config import topics as topics_json
from silomq.store.config.topics import TopicConfig, TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = 20_000
NAMES = [f"topic-{i:05d}" for i in range(TOPICS)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """A store whose topics all stand in topics.json, and whose actors must beat every 1.5 s."""
    path = tmp_path_factory.mktemp("many") / "store"
    (path / "config").mkdir(parents=True)
    save(path, NAMES)
    with StoreProcess(
        path, heartbeat_timeout_ms=1500, max_topics=TOPICS + 8, max_queues=4 * TOPICS + 64
    ) as store:
        yield store


def save(path: Path, names: list[str]) -> None:
    table = TopicTable({name: TopicConfig(name, 4, 4) for name in names})
    topics_json.save(path / "config" / "topics.json", table)


def test_a_store_with_20000_topics_starts_without_a_killed_actor(store: StoreProcess) -> None:
    assert {store.starts(actor) for actor in ACTORS} == {1}
    store.replace("registry")  # it looks at every queue, and beats meanwhile
    store.crash()
    store.start()
    assert {store.starts(actor) for actor in ACTORS} == {1}
    assert "does not beat" not in store.log()


def test_each_of_20000_topics_is_listed_and_can_be_used(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        assert [topic.topic for topic in admin.topics()] == NAMES
        admin.create_topic("one-more", 4)
        assert len(admin.topics()) == TOPICS + 1
    saved = json.loads((store.path / "config" / "topics.json").read_text())
    assert list(saved["topicConfigTable"]) == sorted([*NAMES, "one-more"])
    with Producer(store.path) as producer:
        for name in (NAMES[0], NAMES[-1], "one-more"):
            producer.send(name, name, queue=3)
    with Consumer(store.path, NAMES[-1]) as consumer:
        eventually(lambda: consumer.lag() == 1, "dispatch")
        assert [message.body for message in consumer.poll()] == [NAMES[-1].encode()]
