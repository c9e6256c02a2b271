"""Every call of a producer and its options, against a real store; and its time-outs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.consumed import read
from support.harness import StoreProcess, eventually, tries_within

from silomq import (
    Consumer,
    IllegalMessage,
    Message,
    Producer,
    PutMessageStatus,
    SendFuture,
    SendTimeout,
    StoreClosed,
    StoreError,
)
from silomq.store.record.javahash import java_string_hash

if TYPE_CHECKING:
    pass


OK = PutMessageStatus.PUT_OK
ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL


# -- the calls


def test_a_message_is_stored_as_it_was_given(
    store: StoreProcess, producer: Producer, topic: str
) -> None:
    result = producer.send(
        topic, "grüße", tags="a||b", keys=["k1", "k2"], properties={"x": "ÿ", "y": " "},
        flag=-(2**31) + 1, queue=2, born_timestamp=1234567890123,
    )  # fmt: skip
    assert (result.status, result.topic, result.queue_id, result.queue_offset) == (OK, topic, 2, 0)
    (view,) = read(store, topic, 1)
    assert view.body == "grüße".encode()
    assert (view.tags, view.keys) == ("a||b", ["k1", "k2"])
    assert view.properties["x"] == "ÿ"
    assert view.flag == -(2**31) + 1
    assert view.born_timestamp == 1234567890123
    assert view.store_timestamp == result.store_timestamp
    assert abs(view.store_timestamp / 1000 - time.time()) < 60
    assert view.message_id == result.message_id
    assert len(result.message_id) == 32
    assert view.offset_message_id == result.offset_message_id
    assert view.physical_offset == result.physical_offset
    assert (view.topic, view.queue_id, view.queue_offset) == (topic, 2, 0)


def test_async_sends_are_answered_in_order(
    store: StoreProcess, producer: Producer, topic: str
) -> None:
    called: list[SendFuture] = []
    futures = [
        producer.send_async(topic, b"%d" % i, queue=0, callback=called.append) for i in range(100)
    ]
    results = [future.result(10) for future in futures]
    assert [r.queue_offset for r in results] == list(range(100))
    assert all(future.done() and future.exception() is None for future in futures)
    eventually(lambda: len(called) == 100, "callbacks")
    assert called == futures
    late: list[SendFuture] = []
    futures[0].add_done_callback(late.append)
    assert late == [futures[0]]
    assert [view.body for view in read(store, topic, 100)] == [b"%d" % i for i in range(100)]


def test_futures_can_be_awaited(producer: Producer, topic: str) -> None:
    async def main() -> list[int]:
        futures = [producer.send_async(topic, b"x", queue=0) for _ in range(50)]
        tail = [await future for future in reversed(futures)]
        return [result.queue_offset for result in tail]

    assert asyncio.run(main()) == list(range(49, -1, -1))


def test_oneway_messages_are_stored_in_order(
    store: StoreProcess, producer: Producer, topic: str
) -> None:
    for i in range(300):
        producer.send_oneway(topic, b"%d" % i, queue=1, tags="t")
    producer.flush()
    assert producer.in_flight == 0
    assert producer.rejected == 0
    assert [view.body for view in read(store, topic, 300)] == [b"%d" % i for i in range(300)]


def test_a_batch_lies_side_by_side_in_its_queue(
    store: StoreProcess, producer: Producer, topic: str
) -> None:
    messages = [Message(b"%d" % i, tags=f"t{i}", keys=f"k{i}") for i in range(3)]
    first = producer.send_batch(topic, messages, queue=3)
    assert (first.count, first.queue_offset) == (3, 0)
    second = producer.send_batch_async(topic, [b"3", b"4"], queue=3).result(10)
    assert (second.count, second.queue_offset) == (2, 3)
    producer.send_batch_oneway(topic, (b"5", b"6"), queue=3)
    views = read(store, topic, 7)
    assert [view.body for view in views] == [b"%d" % i for i in range(7)]
    assert [view.tags for view in views[:4]] == ["t0", "t1", "t2", None]
    assert [view.keys for view in views[:3]] == [["k0"], ["k1"], ["k2"]]
    assert first.message_ids + second.message_ids == [v.message_id for v in views[:5]]
    assert first.message_id == ",".join(first.message_ids)
    assert first.offset_message_id.split(",") == [v.offset_message_id for v in views[:3]]
    with pytest.raises(IllegalMessage, match="at least one"):
        producer.send_batch(topic, [])


def test_the_producer_chooses_a_queue(store: StoreProcess, producer: Producer, topic: str) -> None:
    turns = [producer.send(topic, b"turn").queue_id for _ in range(8)]
    assert sorted(turns[:4]) == [0, 1, 2, 3]
    assert turns[4:] == turns[:4]
    for key in ("", "a", "order-17", "grün", "polygenelubricants", "\U0001f600"):
        queue = abs(java_string_hash(key)) % 4 if java_string_hash(key) != -(2**31) else 0
        assert producer.send(topic, b"key", shard_key=key).queue_id == queue, key
    with pytest.raises(IllegalMessage, match="it has queues 0 to 3") as error:
        producer.send(topic, b"x", queue=4)
    assert error.value.status == ILLEGAL


def test_threads_share_a_producer(store: StoreProcess, producer: Producer, topic: str) -> None:
    """Nothing is lost, and each thread's messages keep their order."""

    def work(who: int) -> None:
        for i in range(500):
            body = b"%d:%d" % (who, i)
            if i % 50 == 0:
                producer.send(topic, body, queue=0)
            elif i % 7 == 0:
                producer.send_batch_oneway(topic, [body], queue=0)
            else:
                producer.send_oneway(topic, body, queue=0)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [tuple(map(int, view.body.split(b":"))) for view in read(store, topic, 2000)]
    for who in range(4):
        assert [i for w, i in pairs if w == who] == list(range(500))


def test_a_forked_child_may_not_use_it(producer: Producer, topic: str) -> None:
    producer.send(topic, b"x")
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            producer.send(topic, b"from the child")
            said = b"sent"
        except StoreError as error:
            said = str(error).encode()
        except BaseException as error:  # noqa: BLE001 # the child must not go on as a test
            said = repr(error).encode()
        os.write(write_fd, said)
        os._exit(0)
    os.close(write_fd)
    os.waitpid(pid, 0)
    said = os.read(read_fd, 1000)
    os.close(read_fd)
    assert b"fork" in said, said
    assert producer.send(topic, b"the parent goes on").status == OK


def test_a_closed_producer_has_sent_all_and_sends_no_more(store: StoreProcess, topic: str) -> None:
    producer = Producer(store.path)
    for i in range(200):
        producer.send_oneway(topic, b"%d" % i, queue=0)
    producer.close()
    producer.close()
    assert len(read(store, topic, 200)) == 200, "what was published is appended"
    for call in (producer.send, producer.send_async, producer.send_oneway):
        with pytest.raises(StoreClosed, match="closed"):
            call(topic, b"x")


def test_closing_gives_everything_back(store: StoreProcess, topic: str) -> None:
    def use() -> None:
        with Producer(store.path, ring_size=65536) as producer:
            producer.send(topic, b"x")
        with Consumer(store.path, topic) as consumer:
            assert consumer.poll(1, 5.0)

    use()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        use()
    assert len(os.listdir("/proc/self/fd")) == before


# -- time-outs


def test_frozen_append_times_out_and_delivers_later(
    store: StoreProcess, producer: Producer, topic: str
) -> None:
    producer.send(topic, b"before", queue=0)
    pid = store.kill("append", signal.SIGSTOP)
    try:

        def send_in_vain() -> None:
            began = time.monotonic()
            with pytest.raises(SendTimeout, match="not yet appended"):
                producer.send(topic, b"during", queue=0, timeout=0.3)
            assert time.monotonic() - began > 0.25

        tries = tries_within(1, send_in_vain)
        future = producer.send_async(topic, b"also", queue=0)
        with pytest.raises(SendTimeout):
            future.result(0.1)
        with pytest.raises(SendTimeout):
            producer.flush(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert future.result(10).queue_offset == 1 + tries
    bodies = [view.body for view in read(store, topic, 2 + tries)]
    assert bodies == [b"before", *[b"during"] * tries, b"also"]


def test_a_full_ring_holds_the_producer_back(store: StoreProcess, topic: str) -> None:
    with Producer(store.path, ring_size=65536) as producer:
        producer.send(topic, b"x")
        pid = store.kill("append", signal.SIGSTOP)
        sent = 0

        def send_for_ever() -> None:
            nonlocal sent
            while sent < 1000:
                producer.send_oneway(topic, b"x" * 1000, timeout=0.2)
                sent += 1

        try:
            with pytest.raises(SendTimeout, match="the ring is full"):
                send_for_ever()
            assert 40 < sent < 66
            assert 65536 - 2000 < producer.in_flight <= 65536
            resumed = threading.Timer(0.3, os.kill, (pid, signal.SIGCONT))
            resumed.start()
            producer.send_oneway(topic, b"y" * 1000, timeout=10)  # waits for room
            resumed.join()
        finally:
            os.kill(pid, signal.SIGCONT)
        producer.flush()
    read(store, topic, sent + 2)
