"""A process of the store is killed while a client sleeps on its bell: the client misses nothing."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.bells import is_readable
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, GroupConsumer, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

RINGERS = ("append", "reput", "flush", "registry")
ROUNDS = 12
#: A killed process is replaced within milliseconds; this is for a busy machine.
LATE_S = 10.0


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def store(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[StoreProcess]:
    with StoreProcess(
        tmp_path_factory.mktemp("kills") / "store",
        flush_disk_type=request.param,
        restart_backoff_max_ms=0,
    ) as found:
        yield found


def rests(client: Any) -> None:
    """Polls until nothing is to do, so that the client sleeps on its bell."""
    while is_readable(client.fileno()):
        client.poll()


def kill(store: StoreProcess, actor: str) -> None:
    """Kills an actor that is ready: the store would give up one that never becomes ready."""
    eventually(lambda: store.is_ready(actor), f"{actor} is ready")
    store.kill(actor)


@pytest.mark.parametrize("actor", RINGERS)
def test_a_new_process_rings_once(store: StoreProcess, actor: str) -> None:
    with Producer(store.path) as producer:
        producer.send("t", b"x")
        rests(producer)
        kill(store, actor)
        assert is_readable(producer.fileno(), LATE_S)


@pytest.mark.parametrize("actor", RINGERS)
def test_answers_messages_and_news_come_through(store: StoreProcess, actor: str) -> None:
    """Each comes while the process that tells of it is dead, or just about to be."""
    topic = f"t-{actor}"
    group = f"g-{actor}"
    with Admin(store.path) as admin:
        admin.create_topic(topic, 2)

    async def main() -> None:
        with (
            Producer(store.path) as producer,
            Consumer(store.path, topic) as consumer,
            GroupConsumer(store.path, group, topic, start="earliest") as member,
        ):
            from_consumer, from_member = aiter(consumer), aiter(member)
            for number in range(ROUNDS):
                tasks = [
                    asyncio.ensure_future(anext(from_consumer)),
                    asyncio.ensure_future(anext(from_member)),
                ]
                await asyncio.sleep(random.random() * 0.01)
                kill(store, actor)
                await asyncio.sleep(random.random() * 0.01)
                began = time.monotonic()
                future = producer.send_async(topic, b"%d" % number)
                await asyncio.wait_for(future, LATE_S)
                for task in tasks:
                    message = await asyncio.wait_for(task, LATE_S)
                    assert message.body == b"%d" % number
                assert time.monotonic() - began < LATE_S

    asyncio.run(main())


def test_a_member_hears_of_its_assignment_from_a_new_registry(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        admin.create_topic("divided", 4)
    with GroupConsumer(store.path, "g-divided", "divided", start="earliest") as member:
        member.poll(1, 2.0)
        rests(member)
        kill(store, "registry")
        with GroupConsumer(store.path, "g-divided", "divided", start="earliest") as other:
            deadline = time.monotonic() + LATE_S
            while len(other.assignment) < 2:
                assert time.monotonic() < deadline
                if is_readable(member.fileno(), 0.05):
                    member.poll()
                other.poll(1, 0.01)


def test_bells_that_are_asked_for_while_processes_die(store: StoreProcess) -> None:
    for number in range(ROUNDS * 2):
        actor = RINGERS[number % len(RINGERS)]
        with Producer(store.path) as producer, Consumer(store.path, "t") as consumer:
            kill(store, actor)
            for client in (producer, consumer):
                assert is_readable(client.fileno(), LATE_S)
                rests(client)
            future = producer.send_async("t", b"x")
            assert is_readable(producer.fileno(), LATE_S)
            assert future.result(LATE_S).status.name == "PUT_OK"
            assert is_readable(consumer.fileno(), LATE_S)
