"""A client at its limit of open files gets a StoreError that says so, and leaks nothing."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from support.harness import eventually
from support.open_files import nothing_stays_open, open_files

from silomq import Admin, Consumer, GroupConsumer, Producer, StoreReader, TooManyOpenFiles

if TYPE_CHECKING:
    from support.harness import StoreProcess

MESSAGES = 4


@pytest.fixture
def limit() -> Iterator[Callable[[int], None]]:
    """Sets how many more files this process may open; -1 sets the old limit again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(more: int) -> None:
        low = soft
        if more >= 0:
            used = {int(fd) for fd in open_files()}
            low = [fd for fd in range(soft) if fd not in used][more]
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def produce(store: StoreProcess, topic: str) -> None:
    with Producer(store.path, ring_size=65536) as producer:
        producer.send(topic, b"x")


def consume(store: StoreProcess, topic: str) -> None:
    with Consumer(store.path, topic) as consumer:
        assert len(consumer.poll(MESSAGES, timeout=10)) == MESSAGES


def consume_in_a_group(store: StoreProcess, topic: str) -> None:
    with GroupConsumer(store.path, f"group-{topic}", topic, start="earliest") as consumer:
        assert consumer.poll(1, timeout=10)


def look_up(store: StoreProcess, topic: str) -> None:
    with StoreReader(store.path) as reader:
        assert reader.get_message(topic, 0, 0).messages
        assert reader.by_key(topic, "k")


def administer(store: StoreProcess, topic: str) -> None:
    with Admin(store.path) as admin:
        assert admin.status()["records"]
        admin.topic(topic)


@pytest.mark.parametrize(
    "use", [produce, consume, consume_in_a_group, look_up, administer], ids=lambda use: use.__name__
)
def test_every_call_says_what_is_short_and_leaks_nothing(
    store: StoreProcess, topic: str, limit: Callable[[int], None], use: Callable[..., None]
) -> None:
    with Admin(store.path) as admin:
        admin.create_topic(topic, 1)
    with Producer(store.path) as producer:
        for _ in range(MESSAGES):
            producer.send(topic, b"x", keys="k")
    store.await_dispatch()
    use(store, topic)  # imports and one-time files are open from now on
    failures = 0
    for more in range(60):
        with nothing_stays_open():
            limit(more)
            try:
                use(store, topic)
            except TooManyOpenFiles as error:
                said = str(error)
            else:
                said = ""
            finally:
                limit(-1)
        if not said:
            break
        assert "too many open files" in said
        assert "ulimit -n" in said
        failures += 1
    assert 2 <= failures < 60
    eventually(lambda: store.control.load("sessions") == 0, "no session is left")
