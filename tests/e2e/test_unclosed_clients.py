"""Clients that nobody closes: what they had open is closed with them, and a warning says so."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from support.children import open_files
from support.harness import PYTHON, StoreProcess, eventually

from silomq import Admin, Consumer, GroupConsumer, Producer, SendFuture, StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def path(store: StoreProcess, topic: str) -> Iterator[str]:
    """A store with four messages in `topic`. Cycles are not collected: nothing may be in one."""
    with Producer(store.path) as producer:
        for i in range(4):
            producer.send(topic, b"%d" % i, keys=f"k{i}", queue=0)
    store.await_dispatch()
    gc.collect()
    gc.disable()
    yield str(store.path)
    gc.enable()


@contextlib.contextmanager
def told_unclosed(path: str, *kinds: str) -> Iterator[None]:
    """Clients of these kinds are collected in the block, and nobody has closed them."""
    with pytest.warns(ResourceWarning) as told:
        yield
    assert sorted(str(one.message).partition(":")[0] for one in told) == [
        f"{kind} of the store at {path} was not closed" for kind in kinds
    ]


def consumer(path: str, topic: str) -> Consumer:
    found = Consumer(path, topic)
    assert len(found.poll(4, 10.0)) == 4
    return found


def iterated(path: str, topic: str) -> Consumer:
    found = Consumer(path, topic)
    assert next(iter(found)).body == b"0"
    return found


def member(path: str, topic: str) -> GroupConsumer:
    found = GroupConsumer(path, f"g-{topic}", topic, start="earliest")
    assert len(found.poll(2, 10.0)) == 2
    assert next(iter(found)).body == b"2"
    return found


def reader(path: str, topic: str) -> StoreReader:
    found = StoreReader(path)
    assert found.at(topic, 0, 1).body == b"1"
    assert len(found.by_key(topic, "k1")) == 1
    return found


def admin(path: str, topic: str) -> Admin:
    found = Admin(path)
    assert found.topic(topic).messages == 4
    return found


def producer(path: str, topic: str) -> Producer:
    found = Producer(path)
    found.send(topic, b"x")
    return found


def with_callbacks(path: str, topic: str) -> Producer:
    found = Producer(path)
    called = threading.Event()
    found.send_async(topic, b"x", callback=lambda _: called.set())
    assert called.wait(30)
    return found


def listened(path: str, topic: str) -> GroupConsumer:
    found = GroupConsumer(path, f"g-{topic}", topic, start="earliest")
    called = threading.Event()
    listener = found.listen(lambda _: called.set(), concurrency=2)
    assert called.wait(30)
    listener.stop()
    return found


MAKERS = (consumer, iterated, member, reader, admin, producer, with_callbacks, listened)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_an_unclosed_client_frees_what_it_had_and_warns(
    path: str, topic: str, make: Callable[[str, str], Any]
) -> None:
    before = open_files()
    client: Any = make(path, topic)
    kind, gone = type(client).__name__, weakref.ref(client)
    assert open_files() - before
    with told_unclosed(path, kind):
        del client
        # The thread of callbacks or of a listener may have to end first.
        eventually(lambda: gone() is None and open_files() == before, "all is closed")


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_closed_client_says_nothing(
    path: str, topic: str, make: Callable[[str, str], Any]
) -> None:
    """A warning would be an error here, as everywhere in these tests."""
    before = open_files()
    client: Any = make(path, topic)
    client.close()
    client.close()
    assert open_files() == before
    gone = weakref.ref(client)
    del client
    eventually(lambda: gone() is None, "nothing keeps it")


def test_a_member_that_sent_back_frees_its_producer_too(path: str, topic: str) -> None:
    before = open_files()
    client = GroupConsumer(path, f"g-{topic}", topic, start="earliest")
    client.nack(client.poll(1, 10.0)[0], delay_level=-1)
    with told_unclosed(path, "GroupConsumer", "Producer"):
        del client
        eventually(lambda: open_files() == before, "all is closed")


def test_a_reader_of_a_stopped_store_frees_what_it_had(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with StoreProcess(folder) as store, Producer(store.path) as sender:
        sender.send("t", b"x", queue=0)
    before = open_files()
    client = StoreReader(folder, stopped=True)
    assert client.at("t", 0, 0).body == b"x"
    with told_unclosed(str(folder), "StoreReader"):
        del client
    assert open_files() == before


def test_a_refused_client_leaves_nothing_open(path: str, topic: str) -> None:
    before = open_files()
    for wrong in (
        lambda: Consumer(path, "nowhere"),
        lambda: Consumer(path, topic, queues=[99]),
        lambda: GroupConsumer(path, "g", "nowhere"),
        lambda: GroupConsumer(path, "g", topic, start="sometime"),
        lambda: Producer(path, ring_size=1 << 60),
        lambda: Admin(path + "/commitlog"),
    ):
        with pytest.raises(Exception, match=r"."):
            wrong()
        assert open_files() == before


def test_a_future_keeps_its_session_but_not_for_ever(path: str, topic: str) -> None:
    """Whoever still has a future gets the result, although the producer is gone."""
    before = open_files()

    def send() -> SendFuture:
        return Producer(path, timeout=30.0).send_async(topic, b"x", queue=0)

    future = send()
    assert future.result().queue_offset == 4
    with told_unclosed(path, "Producer"):
        del future
        assert open_files() == before


def test_a_callback_is_called_although_nobody_has_the_producer(path: str, topic: str) -> None:
    before = open_files()
    called = threading.Event()

    def send() -> None:
        producer = Producer(path, timeout=30.0)
        for _ in range(100):
            producer.send_async(topic, b"x")
        producer.send_async(topic, b"x", callback=lambda _: called.set())

    def freed() -> bool:
        gc.collect()  # futures without an answer are in a cycle with their session
        return open_files() == before

    with told_unclosed(path, "Producer"):
        send()
        assert called.wait(30)
        eventually(freed, "all is closed")


def test_a_listener_works_on_when_nobody_has_the_consumer(
    store: StoreProcess, path: str, topic: str
) -> None:
    """It is at work until it is stopped, as a thread is."""
    seen: list[bytes] = []
    listener = GroupConsumer(path, f"g-{topic}", topic, start="earliest").listen(
        lambda message: seen.append(message.body)
    )
    eventually(lambda: len(seen) == 4, "what was there")
    with Producer(path) as other:
        other.send(topic, b"4", queue=0)
    eventually(lambda: len(seen) == 5, "what came later")
    listener.stop()
    with Admin(path) as its, told_unclosed(path, "GroupConsumer"):
        del listener
        eventually(lambda: not its.group(f"g-{topic}").members, "it has left")


#: A program that ends with clients open, in places that are torn down at different times.
LEFT_OPEN = """
import builtins, sys, threading
from silomq import Admin, Consumer, GroupConsumer, Producer, StoreReader
path, topic = sys.argv[1:]
admin = Admin(path)
consumer = Consumer(path, topic)
consumer.poll(1, 10)
sys.kept = StoreReader(path)
sys.kept.at(topic, 0, 0)
builtins.kept = Producer(path)
called = threading.Event()
builtins.kept.send_async(topic, b"x", callback=lambda _: called.set())
called.wait(30)
class Holder:
    member = GroupConsumer(path, "left", topic, start="earliest")
Holder.member.poll(1, 10)
cycle = [Producer(path)]
cycle.append(cycle)
"""
#: More for that program: a listener, whose threads run until the very end.
LISTENS = """
listens = GroupConsumer(path, "listens", topic, start="earliest")
heard = threading.Event()
listens.listen(lambda _: heard.set(), concurrency=2)
heard.wait(30)
"""
RAISES = "raise KeyError('the program\\'s own')"


@pytest.mark.parametrize("last", ["sys.exit(0)", RAISES, LISTENS], ids=["exit", "raise", "listens"])
@pytest.mark.parametrize("options", [(), ("-X", "dev")])
def test_a_program_may_end_with_clients_open(
    path: str, topic: str, last: str, options: tuple[str, ...]
) -> None:
    command = [*PYTHON, *options, "-c", LEFT_OPEN + last, path, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    said = done.stderr
    assert done.returncode == bool("raise" in last), said
    assert "Exception ignored" not in said
    assert said.count("Traceback") == said.count("the program's own") == int("raise" in last)
    if not options:
        assert "Warning" not in said
    elif last != LISTENS:  # whose threads keep what the program has
        for kind in ("Admin", "Consumer", "Producer", "GroupConsumer"):
            assert f"ResourceWarning: {kind} of the store at {path}" in said
