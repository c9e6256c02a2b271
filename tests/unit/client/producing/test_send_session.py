"""What a producer's session decides: topics, a store that stands still, a store that goes."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from support.memory_store import MemoryStore, answering, connect

from silomq import (
    ForkedChild,
    IllegalMessage,
    PutMessageStatus,
    SendTimeout,
    SessionLost,
    StoreClosed,
)
from silomq.client.producing._sender import send_encoded, session_of
from silomq.client.producing.send_session import Hold
from silomq.shm.protocol.requests import Open, OpenDelayed, OpenRetry
from silomq.shm.ring import RingClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from silomq import SendFuture

BUSY = PutMessageStatus.OS_PAGE_CACHE_BUSY


# -- the topics of a session


def test_a_topic_is_opened_once() -> None:
    store = MemoryStore(queues=3)
    sender = connect(store)
    for _ in range(3):
        sender.send_oneway("t", b"x")
    sender.send_oneway("u", b"x", delay_level=1, queue=2)
    assert store.requests == [
        Open("t", write=True),
        Open("u", write=True),
        OpenDelayed("u", timer=False),
    ]


def test_retry_topics_are_opened_for_their_group() -> None:
    store = MemoryStore()
    session = session_of(connect(store))
    for _ in range(2):
        assert session.open_retry("g", dead=False) == "%RETRY%g"
        assert session.open_retry("g", dead=True) == "%DLQ%g"
    assert store.requests == [OpenRetry("g", dead=False), OpenRetry("g", dead=True)]


def test_an_encoded_record_keeps_its_bytes() -> None:
    source, store = MemoryStore(), MemoryStore()
    connect(source).send_oneway("t", b"x" * 100, queue=1)
    (record,) = source.records()
    key = "0123456789ABCDEF" * 2
    sender = connect(store)
    with answering(store):
        result = send_encoded(sender, "t", 1, record, unique_key=key, timeout=30)
    assert result.message_id == key
    assert (result.queue_id, store.frames()[0].slot) == (1, 101)
    assert store.frames()[0].records == record
    with pytest.raises(IllegalMessage, match="it has queues 0 to 3"):
        send_encoded(sender, "t", 4, record)


# -- append does not move


def stand_still(store: MemoryStore) -> None:
    """Append is at work and does not come round: its last beat is as old as the machine."""
    store.control.own("append_asleep").store(0)


def test_after_a_wait_in_vain_nothing_is_published_until_append_moves() -> None:
    store = MemoryStore(page_cache_busy_ms=1)
    sender = connect(store)
    ring = session_of(sender).ring
    future = sender.send_async("t", b"x")
    stand_still(store)
    sender.send_oneway("t", b"no wait was in vain yet")
    with pytest.raises(SendTimeout):
        future.result(0.1)
    assert ring.holds == Hold.STALLED
    head = ring.head
    calls: list[Callable[[], object]] = [
        lambda: sender.send("t", b"y"),
        lambda: sender.send_oneway("t", b"y"),
        lambda: sender.send_batch_oneway("t", [b"y"]),
    ]
    for call in calls:
        with pytest.raises(IllegalMessage, match="busy with one batch") as error:
            call()
        assert error.value.status == BUSY
    assert ring.head == head
    store.control.own("append_asleep").store(1)
    sender.send_oneway("t", b"z")
    assert ring.holds == 0
    assert store.bodies()[-1] == b"z"


def test_a_full_ring_ends_in_a_timeout() -> None:
    store = MemoryStore()
    sender = connect(store, timeout=0.1)

    def send_for_ever() -> None:
        for _ in range(1000):
            sender.send_oneway("t", b"x" * 1000)

    with pytest.raises(SendTimeout, match=r"the ring is full: .* bytes wait for the store"):
        send_for_ever()
    held = len(store.records())
    assert session_of(sender).in_flight > 60_000
    store.answer(0)
    sender.send_oneway("t", b"x" * 900)
    assert len(store.records()) == held


def test_what_is_too_long_for_the_ring() -> None:
    sender = connect(MemoryStore())
    with pytest.raises(IllegalMessage, match="open it with a larger ring_size"):
        sender.send_oneway("t", b"x" * 40_000)


# -- flush


def test_flush_waits_for_all_that_was_sent() -> None:
    store = MemoryStore()
    sender = connect(store)
    session = session_of(sender)
    session.flush(0)
    sender.send_oneway("t", b"x")
    sender.send_async("t", b"x")
    with pytest.raises(SendTimeout, match="bytes were not answered within 0 s"):
        session.flush(0)
    with answering(store):
        session.flush(30)
    assert session.in_flight == 0


# -- the store goes


@pytest.mark.parametrize("why", [RingClosed.OPEN, RingClosed.STORE_STOPPED, RingClosed.BAD_FRAME])
def test_a_lost_session_fails_everything(why: RingClosed) -> None:
    store = MemoryStore()
    sender = connect(store)
    futures = [sender.send_async("t", b"x") for _ in range(3)]
    store.answer(0)
    store.lose(why)
    kind = SessionLost if why == RingClosed.BAD_FRAME else StoreClosed
    with pytest.raises(kind):
        futures[1].result(30)
    assert futures[0].result().queue_offset == 0
    assert type(futures[2].exception()) is kind
    for call in (sender.send, sender.send_async, sender.send_oneway):
        with pytest.raises(kind):
            call("t", b"x")
    with pytest.raises(kind):
        session_of(sender).open_topic("u")
    with pytest.raises(kind):
        session_of(sender).flush(1)


def test_a_callback_may_close_the_session_that_could_not_be_replaced() -> None:
    """The thread that tried to replace it calls the callbacks, and must hold no lock then."""
    store = MemoryStore()
    sender = connect(store, on_restart="retry", reconnect=0.1)
    session = session_of(sender)
    called = threading.Event()

    def close(_: SendFuture) -> None:
        closing = threading.Thread(target=session.close)
        closing.start()
        closing.join(1.0)  # the producer's own thread may be the one that waits for this callback
        called.set()

    sender.send_async("t", b"x", callback=close)
    store.lose()
    assert called.wait(30)
    ended = threading.Thread(target=session.close)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    with pytest.raises(StoreClosed):
        sender.send("t", b"x")


def test_a_forked_child_may_not_send() -> None:
    store = MemoryStore()
    sender = connect(store)
    sender.send_oneway("t", b"x")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            sender.send_oneway("t", b"y")
        except ForkedChild as error:
            code = 0 if "forked child" in str(error) else 2
        session_of(sender).close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    sender.send_oneway("t", b"z")
    assert store.bodies() == [b"x", b"z"]
