"""Requests and replies between clients of the store, with a real store."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from support.children import in_child, open_files
from support.harness import PYTHON, StoreProcess, eventually
from support.repliers import Replier

from silomq import (
    Consumer,
    ForkedChild,
    IllegalArgument,
    IllegalMessage,
    IllegalType,
    Message,
    Producer,
    ReplyFuture,
    RequestProducer,
    RequestTimeout,
    SendFuture,
    SendTimeout,
    StoreClosed,
)
from silomq.client.producing._sender import session_of
from silomq.client.producing._with_pairs import send_with_pairs
from silomq.client.producing.replying import REPLIES
from silomq.shm.control import ACTORS
from silomq.store.names import REPLIES_TOPIC
from silomq.store.record.properties import encode_properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG_S = 60.0


@pytest.fixture
def asker(store: StoreProcess) -> Iterator[RequestProducer]:
    with RequestProducer(store.path) as producer:
        yield producer


def request_of(store: StoreProcess, topic: str) -> dict[str, str]:
    """The properties of the newest request in a topic."""
    with Consumer(store.path, topic) as consumer:
        found = consumer.poll(1000, LONG_S)
        return found[-1].properties


def test_a_request_is_replied(store: StoreProcess, topic: str, asker: RequestProducer) -> None:
    with Replier(store.path, topic) as replier:
        reply = asker.request(topic, "one", tags="a", keys=["k"], properties={"colour": "red"})
        assert reply.body == b"re: one"
        asked = request_of(store, topic)
        assert reply.properties["CORRELATION_ID"] == asked["CORRELATION_ID"]
        assert reply.properties["MSG_TYPE"] == "reply"
        assert reply.topic == REPLIES_TOPIC
        assert (asked["TAGS"], asked["KEYS"], asked["colour"]) == ("a", "k", "red")
        assert (asked["TTL"], asked["CLUSTER"]) == ("3000", "DefaultCluster")
        assert asker.request(topic, Message("two", tags="b"), queue=0).body == b"re: two"
        asker.send(topic, "no request", queue=0)
        assert asker.request(topic, "three", queue=0).body == b"re: three"
    assert replier.others == [b"no request"]


def test_many_requests_are_under_way_at_a_time(
    store: StoreProcess, topic: str, asker: RequestProducer
) -> None:
    bodies = [b"%d" % i for i in range(500)]
    with Replier(store.path, topic), RequestProducer(store.path) as second:
        futures = [
            (asker, second)[i % 2].request_async(topic, body, timeout=LONG_S)
            for i, body in enumerate(bodies)
        ]
        found = [future.result().body for future in futures]
        assert found == [b"re: " + body for body in bodies]
        assert all(future.done() and future.exception() is None for future in futures)
        assert len({future.correlation_id for future in futures}) == len(bodies)

        async def ask_all() -> list[bytes]:
            asked = [asker.request_async(topic, body, timeout=LONG_S) for body in bodies[:50]]
            return [(await one).body for one in asked]

        assert asyncio.run(ask_all()) == found[:50]
        in_threads: dict[int, bytes] = {}

        def ask(number: int) -> None:
            in_threads[number] = asker.request(topic, bodies[number], timeout=LONG_S).body

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert in_threads == dict(enumerate(found[:8]))


def test_many_replies_are_under_way_at_a_time(
    store: StoreProcess, topic: str, asker: RequestProducer
) -> None:
    waiting = [asker.request_async(topic, str(n), timeout=LONG_S) for n in range(200)]
    with Producer(store.path) as replier, Consumer(store.path, topic) as consumer:
        sent: list[SendFuture] = []
        while len(sent) < len(waiting):
            requests = consumer.poll(100, LONG_S)
            sent += [replier.reply_async(one, b"re: " + one.body) for one in requests]
        assert all(one.result(LONG_S).status.name == "PUT_OK" for one in sent)
        replier.send(topic, b"no request")
        (message,) = consumer.poll(1, LONG_S)
        with pytest.raises(IllegalArgument, match="this message is none"):
            replier.reply_async(message, "x")
    assert [one.result().body for one in waiting] == [b"re: %d" % n for n in range(200)]


def test_the_first_reply_counts(store: StoreProcess, topic: str, asker: RequestProducer) -> None:
    told: list[ReplyFuture] = []
    with Replier(store.path, topic, times=2):
        for number in range(20):
            future = asker.request_async(topic, b"%d" % number, timeout=LONG_S)
            future.add_done_callback(told.append)
            assert future.result().body == b"re: %d" % number
    eventually(lambda: len(told) == 20, "each callback is called")
    told[0].add_done_callback(told.append)
    assert told[-1] is told[0]
    assert len(told) == 21


def test_no_reply_in_time(store: StoreProcess, topic: str, asker: RequestProducer) -> None:
    asker.open_topic(topic)
    with pytest.raises(RequestTimeout, match=r"within 0\.1 s.*@0\. Does a consumer") as late:
        asker.request(topic, "x", timeout=0.1, queue=0)
    assert isinstance(late.value, TimeoutError)
    waits = asker.request_async(topic, "y", timeout=LONG_S, queue=0)
    soon = asker.request_async(topic, "z", timeout=0.2, queue=0)
    with pytest.raises(RequestTimeout, match="it may still come"):
        waits.result(0.01)
    with pytest.raises(RequestTimeout, match=r"within 0\.2 s"):
        soon.result()
    assert isinstance(soon.exception(), RequestTimeout)
    assert not waits.done()
    # Now somebody replies to all three, too late for two of them.
    with Producer(store.path) as replier, Consumer(store.path, topic, queues=[0]) as consumer:
        for message in consumer.poll(3, LONG_S):
            replier.reply(message, b"late " + message.body)
    assert waits.result().body == b"late y"
    assert isinstance(soon.exception(), RequestTimeout)


def test_what_cannot_be_asked_or_replied(
    store: StoreProcess, topic: str, asker: RequestProducer
) -> None:
    with pytest.raises(IllegalMessage):
        asker.request("not/a topic", "x")
    with pytest.raises(IllegalMessage):
        asker.request(REPLIES_TOPIC, "x")
    with pytest.raises(IllegalType):
        asker.request(topic, 7)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument):
        asker.request(topic, "x", timeout=-1)
    with pytest.raises(IllegalMessage, match="queue 99"):
        asker.request_async(topic, "x", queue=99)
    asker.send(topic, "plain", queue=0)
    with Consumer(store.path, topic, queues=[0]) as consumer:
        (message,) = consumer.poll(1, LONG_S)
    with pytest.raises(IllegalArgument, match="lacks the property CORRELATION_ID"):
        asker.reply(message, "x")
    with pytest.raises(IllegalType, match="request must be a message"):
        asker.reply("no message", "x")  # type: ignore[arg-type]
    asker.request_async(topic, "x", queue=0, timeout=0.0)
    with Consumer(store.path, topic, queues=[0], offset=1) as consumer:
        (message,) = consumer.poll(1, LONG_S)
    with pytest.raises(IllegalMessage, match="replies lie in no light queues"):
        asker.reply(message, "x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})


def test_foreign_records_among_the_replies(
    store: StoreProcess, topic: str, asker: RequestProducer
) -> None:
    """Whoever may reply may put anything there: it is dropped, and replies go on."""
    with Replier(store.path, topic), Producer(store.path) as other:
        assert asker.request(topic, "x", timeout=LONG_S).body == b"re: x"
        mine = request_of(store, topic)["REPLY_TO_CLIENT"]
        queues = len(session_of(other).open_topic(REPLIES).slots)
        for properties in (
            {},
            {"REPLY_TO_CLIENT": mine},
            {"REPLY_TO_CLIENT": mine, "CORRELATION_ID": "unknown"},
            {"REPLY_TO_CLIENT": "silomq-local:other", "CORRELATION_ID": "c"},
        ):
            pairs = encode_properties(properties)
            for queue in range(queues):
                send_with_pairs(other, REPLIES, b"junk", pairs, queue=queue).result()
        assert asker.request(topic, "y", timeout=LONG_S).body == b"re: y"


def test_a_reply_to_another_client_is_not_taken(
    store: StoreProcess, topic: str, asker: RequestProducer
) -> None:
    waits = asker.request_async(topic, "x", timeout=LONG_S)
    with Producer(store.path) as other, Consumer(store.path, topic) as consumer:
        (request,) = consumer.poll(1, LONG_S)
        key = request.properties["CORRELATION_ID"]
        pairs = encode_properties({"REPLY_TO_CLIENT": "another", "CORRELATION_ID": key})
        for queue in range(len(session_of(other).open_topic(REPLIES).slots)):
            send_with_pairs(other, REPLIES, b"junk", pairs, queue=queue).result()
        other.reply(request, "the right one")
    assert waits.result().body == b"the right one"


def test_a_closed_producer_fails_its_requests(store: StoreProcess, topic: str) -> None:
    before = open_files()
    producer = RequestProducer(store.path)
    future = producer.request_async(topic, "x", timeout=None)
    raised: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: raised.append(future.exception()))
    thread.start()
    producer.close()
    producer.close()
    thread.join()
    assert isinstance(raised[0], StoreClosed)
    with pytest.raises(StoreClosed):
        producer.request(topic, "x")
    assert open_files() == before


def test_a_producer_that_nobody_has_ends_its_thread(store: StoreProcess, topic: str) -> None:
    before = open_files()
    producer = RequestProducer(store.path)
    future = producer.request_async(topic, "x", timeout=0.5)
    left = [producer]
    futures = [future]
    del producer, future

    def let_go() -> None:
        left.clear()  # its thread may still hold it for a moment
        assert isinstance(futures.pop().exception(), RequestTimeout)
        eventually(lambda: open_files() == before, "all is closed")

    with pytest.warns(ResourceWarning, match="Producer of the store at"):
        let_go()
    assert not [one for one in threading.enumerate() if one.name == "silomq-replies"]


def test_a_forked_child_cannot_ask(store: StoreProcess, topic: str, asker: RequestProducer) -> None:
    with Replier(store.path, topic):
        waits = asker.request_async(topic, "x", timeout=LONG_S)

        def work() -> str:
            before = waits.exception(0) if not waits.done() else None
            with pytest.raises(ForkedChild):
                asker.request(topic, "y")
            with RequestProducer(store.path) as own:
                assert own.request(topic, "own", timeout=LONG_S).body == b"re: own"
            return type(before).__name__

        assert in_child(work) in ("ForkedChild", "NoneType")
        assert waits.result().body == b"re: x"
    silent = asker.request_async(topic, "z", timeout=LONG_S)
    assert in_child(lambda: type(silent.exception(10.0)).__name__) == "ForkedChild"
    assert not silent.done()


def test_a_store_without_room_for_the_second_session(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store", max_sessions=6, reserved_sessions=0) as store,
        RequestProducer(store.path) as asker,
        contextlib.ExitStack() as others,
    ):
        last = others.enter_context(Producer(store.path))
        with contextlib.suppress(IllegalMessage):
            while True:
                others.enter_context(Producer(store.path))
        with pytest.raises(IllegalMessage, match="close some, or raise max_sessions"):
            asker.request("t", "x")
        asker.send("t", "x")
        last.close()

        def has_room() -> bool:
            try:
                asker.request("t", "x", timeout=0.01)
            except (IllegalMessage, RequestTimeout, SendTimeout) as error:
                return isinstance(error, RequestTimeout)
            return False

        eventually(has_room, "the closed session has ended")


# -- what dies


@pytest.mark.parametrize("name", [name for name in ACTORS if name != "supervisor"])
def test_replies_come_while_a_process_is_killed(killed: StoreProcess, name: str) -> None:
    with Replier(killed.path, "t"), RequestProducer(killed.path) as asker:
        for number in range(60):
            if number == 20:
                killed.kill(name)
            body = b"%d" % number
            assert asker.request("t", body, timeout=LONG_S).body == b"re: " + body


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("killed") / "store") as store:
        yield store


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_store_that_stops_fails_requests(tmp_path: Path, how: str) -> None:
    with StoreProcess(tmp_path / "store") as store, RequestProducer(store.path) as asker:
        future = asker.request_async("t", "x", timeout=None)
        eventually(lambda: asker.in_flight == 0, "the request is stored")
        getattr(store, how)()
        with pytest.raises(StoreClosed, match="before the reply came"):
            future.result()
        with pytest.raises(StoreClosed):
            asker.request("t", "y")
        store.start()


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_request_waits_through_a_restart(tmp_path: Path, how: str) -> None:
    with (
        StoreProcess(tmp_path / "store") as store,
        RequestProducer(store.path, on_restart="retry") as asker,
    ):
        with Replier(store.path, "other"):
            asker.request("other", "first", timeout=LONG_S)  # the queue of replies is not empty
        waits = asker.request_async("t", "x", timeout=LONG_S, queue=0)
        soon = asker.request_async("t", "y", timeout=0.3, queue=0)
        eventually(lambda: asker.in_flight == 0, "the requests are stored")
        getattr(store, how)()
        with pytest.raises(RequestTimeout):  # also while there is no store
            soon.result()
        store.start()
        with Producer(store.path) as replier, Consumer(store.path, "t", queues=[0]) as consumer:
            replier.reply(consumer.poll(1, LONG_S)[0], "after the restart")
        assert waits.result().body == b"after the restart"
        with Replier(store.path, "t"):
            assert asker.request("t", "z", timeout=LONG_S).body == b"re: z"


def test_a_requester_that_dies_harms_nobody(
    store: StoreProcess, topic: str, asker: RequestProducer
) -> None:
    dies = (
        "import os, sys; from silomq import RequestProducer; mine = RequestProducer(sys.argv[1]);"
        "mine.request_async(sys.argv[2], 'dead', timeout=None); mine.flush(); os._exit(0)"
    )
    subprocess.run([*PYTHON, "-c", dies, str(store.path), topic], check=True, timeout=LONG_S)
    with Producer(store.path) as replier, Consumer(store.path, topic) as consumer:
        (message,) = consumer.poll(1, LONG_S)
        replier.reply(message, "to nobody")
    with Replier(store.path, topic):
        assert asker.request(topic, "x", timeout=LONG_S).body == b"re: x"
