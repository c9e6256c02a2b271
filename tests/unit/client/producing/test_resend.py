"""What becomes of unanswered messages when the store comes back."""

from __future__ import annotations

import threading
import time

import pytest
from support.harness import eventually
from support.memory_store import MemoryStore, answering, connect, in_thread

from silomq import (
    IllegalMessage,
    PutMessageStatus,
    SendFuture,
    SessionLost,
    StoreClosed,
)
from silomq.client.producing._sender import Sender, session_of
from silomq.client.producing.resend import may_resend, session_lost
from silomq.client.producing.send_session import Hold
from silomq.shm.protocol.answers import (
    Opened,
    OpenedDelayed,
)
from silomq.shm.protocol.requests import Open, OpenDelayed, OpenRetry
from silomq.shm.ring import RingClosed
from silomq.store.record.format import decode_record


@pytest.mark.parametrize(
    ("on_restart", "why", "again"),
    [
        ("error", RingClosed.STORE_STOPPED, False),
        ("retry", RingClosed.STORE_STOPPED, True),
        ("retry", RingClosed.OPEN, True),
        ("retry", RingClosed.BAD_FRAME, False),
    ],
)
def test_what_is_sent_again(on_restart: str, why: RingClosed, *, again: bool) -> None:
    assert may_resend(on_restart, why) is again


def test_a_ring_that_made_no_sense_is_an_error_of_its_own() -> None:
    assert isinstance(session_lost("s", RingClosed.BAD_FRAME), SessionLost)
    assert not isinstance(session_lost("s", RingClosed.STORE_STOPPED), SessionLost)


def retrying(*stores: MemoryStore, reconnect: float = 30.0) -> Sender:
    return connect(*stores, timeout=30.0, on_restart="retry", reconnect=reconnect)


def test_what_was_unanswered_is_sent_again_in_order() -> None:
    first, second = MemoryStore(), MemoryStore(queues=4)
    sender = retrying(first, second)
    futures = [sender.send_async(f"t{i % 2}", b"%d" % i, queue=i % 4) for i in range(6)]
    sender.send_oneway("t0", b"6")
    sender.send_batch_oneway("t1", [b"7", b"8"], queue=0)
    sender.send_oneway("t0", b"9", delay_level=1)
    first.answer(0, 0)
    wanted = first.records()
    first.lose()
    with answering(second):
        futures[-1].result()
    assert [frame.records for frame in second.frames()] == wanted
    assert [future.result().queue_offset for future in futures] == [0, 1, 0, 1, 2, 3]
    assert futures[3].result().message_id in str(wanted[1])
    assert second.requests == [
        Open("t0", write=True),
        Open("t1", write=True),
        OpenDelayed("t0", timer=False),
    ]


def test_answers_that_nobody_took_count() -> None:
    """They are there when a wait for a sync finds that the store is gone."""
    first, second = MemoryStore(level=1), MemoryStore(level=1)
    sender = retrying(first, second)
    durable = sender.send_async("t", b"0")
    first.answer(0)
    assert not durable.done()
    futures = [sender.send_async("t", b"%d" % i, wait_store=False) for i in (1, 2)]
    first.answer(0)
    first.lose()
    second.control.own("flushed").store(1 << 30)
    assert durable.result().status == PutMessageStatus.PUT_OK, "it is in the log"
    assert futures[0].result().queue_offset == 1
    assert second.bodies() == [b"2"]
    second.answer(0)
    assert futures[1].result().queue_offset == 0


def test_nobody_publishes_before_what_came_earlier() -> None:
    """Others send while the store is away, and while it has just come back."""
    first, second = MemoryStore(), MemoryStore()
    second.alive = False
    sender = retrying(first, second)
    futures = [sender.send_async(f"t{i}", b"%d" % i) for i in range(20)]
    wanted = first.keys()
    first.lose()
    waiting = in_thread(lambda: futures[-1].exception(30))
    eventually(lambda: session_of(sender).ring.holds & Hold.RESENDING, "the loss is noticed")
    late = in_thread(lambda: sender.send_oneway("t0", b"late"))
    time.sleep(0.05)
    assert late.is_alive()
    second.alive = True
    late.join(30)
    assert second.bodies() == [b"%d" % i for i in range(20)] + [b"late"]
    assert second.keys()[:20] == wanted
    second.answer_all()
    waiting.join(30)
    assert all(future.exception() is None for future in futures)


def test_a_store_that_goes_again() -> None:
    """The second goes when it is asked for a topic, in the middle of what is sent again."""
    first, second, third = (MemoryStore() for _ in range(3))
    sender = retrying(first, second, third)
    futures = [sender.send_async(f"t{i}", b"%d" % i) for i in range(5)]
    first.lose()
    ask = second.request

    def lose_at_the_third(asked: Open | OpenDelayed | OpenRetry) -> Opened | OpenedDelayed:
        if asked == Open("t2", write=True):
            second.lose()
            raise StoreClosed("gone")
        return ask(asked)

    second.request = lose_at_the_third  # type: ignore[method-assign]
    with answering(third):
        assert [future.result().queue_offset for future in futures] == list(range(5))
    assert [decode_record(f.records).body for f in third.frames()] == [b"%d" % i for i in range(5)]


def test_a_topic_that_is_gone_fails_its_own_messages_alone() -> None:
    first, second = MemoryStore(), MemoryStore(queues=2)
    second.refused.add("gone")
    sender = retrying(first, second)
    called: list[SendFuture] = []
    gone = sender.send_async("gone", b"0", callback=called.append)
    kept = sender.send_async("kept", b"1", queue=1)
    queue = sender.send_async("kept", b"2", queue=3)
    first.lose()
    with answering(second):
        kept.result()
    assert isinstance(gone.exception(), IllegalMessage)
    eventually(lambda: called == [gone], "its callback")
    with pytest.raises(IllegalMessage, match="queue 3 of topic kept: the store has 2 queues now"):
        queue.result()
    assert [decode_record(frame.records).body for frame in second.frames()] == [b"1"]


def test_a_ring_that_came_back_smaller() -> None:
    first, second = MemoryStore(capacity=1 << 20), MemoryStore()
    sender = retrying(first, second)
    long = sender.send_async("t", b"x" * 40_000)
    short = sender.send_async("t", b"x")
    first.lose()
    with answering(second):
        short.result()
    with pytest.raises(IllegalMessage, match="open the producer with a larger ring_size"):
        long.result()


def test_it_gives_up_after_a_while() -> None:
    first, second = MemoryStore(), MemoryStore()
    second.alive = False
    sender = retrying(first, second, reconnect=0.2)
    future = sender.send_async("t", b"x")
    called: list[SendFuture] = []
    future.add_done_callback(called.append)
    first.lose()
    with pytest.raises(StoreClosed, match="stopped with messages of this producer unanswered"):
        future.result()
    eventually(lambda: called == [future], "its callback")
    second.alive = True
    with pytest.raises(StoreClosed):
        sender.send("t", b"y")


def test_closing_ends_the_wait_for_a_store() -> None:
    first, second = MemoryStore(), MemoryStore()
    second.alive = False
    sender = retrying(first, second)
    errors: list[BaseException | None] = []
    future = sender.send_async("t", b"x")
    first.lose()
    waiting = in_thread(lambda: errors.append(future.exception()))
    session = session_of(sender)
    eventually(lambda: session.ring.holds & Hold.RESENDING, "the loss is noticed")
    session.close()
    waiting.join(30)
    assert not waiting.is_alive()
    assert "the producer is closed" in str(errors[0])
    assert session.closed is not None


def test_flush_goes_on_in_the_next_session() -> None:
    first, second = MemoryStore(), MemoryStore()
    sender = retrying(first, second)
    for i in range(20):
        sender.send_oneway("t", b"%d" % i)
    first.answer(*[0] * 10)
    first.lose()
    with answering(second):
        session_of(sender).flush(30)
    assert [decode_record(frame.records).body for frame in second.frames()] == [
        b"%d" % i for i in range(10, 20)
    ]


def test_threads_send_through_a_restart() -> None:
    """Each thread's messages stay in order, and none is lost."""
    first, second = MemoryStore(capacity=1 << 18), MemoryStore(capacity=1 << 20)
    sender = retrying(first, second)
    stop = threading.Event()
    sent = [0] * 3

    def work(who: int) -> None:
        while not stop.is_set() or sent[who] < 50:
            sender.send_oneway(f"t{who}", b"%d:%d" % (who, sent[who]))
            sent[who] += 1
            time.sleep(0.0005)

    threads = [in_thread(lambda who=who: work(who)) for who in range(3)]  # type: ignore[misc]
    eventually(lambda: sum(sent) > 100, "some are sent")
    answered = first.write_results(*[0] * 30)
    first.memory.set_word("tail", answered[-1].end)
    first.lose()
    session_of(sender).look_after()  # as a wait would
    eventually(lambda: sum(sent) > 300, "they go on")
    stop.set()
    for thread in threads:
        thread.join()
    found = [f.records for f in answered] + second.records()
    pairs = [tuple(map(int, decode_record(records).body.split(b":"))) for records in found]
    for who in range(3):
        assert [number for w, number in pairs if w == who] == list(range(sent[who]))
