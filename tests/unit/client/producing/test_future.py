"""Futures: resolved in the order of sending, by whoever looks, with callbacks and time-outs."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.harness import eventually
from support.memory_store import MemoryStore, answering, connect

from silomq import (
    IllegalMessage,
    PutMessageStatus,
    SendFuture,
    SendResult,
    SendTimeout,
    StoreClosed,
)
from silomq.client.producing import _future
from silomq.client.producing._sender import Sender, session_of
from silomq.shm.protocol.requests import Open
from silomq.store.status import AckLevel

if TYPE_CHECKING:
    pass

ILLEGAL = int(PutMessageStatus.MESSAGE_ILLEGAL)
NOT_NOW = int(PutMessageStatus.SERVICE_NOT_AVAILABLE)


def test_it_says_what_was_sent(sender: Sender) -> None:
    future = sender.send_async("t", b"x", queue=3)
    assert isinstance(future, _future.SendFuture)
    assert (future.topic, future.queue_id, future.count) == ("t", 3, 1)
    assert sender.send_batch_async("t", [b"x", b"y"], queue=1).count == 2


def test_a_result(store: MemoryStore, sender: Sender) -> None:
    future = sender.send_async("t", b"x", queue=3)
    store.answer(0)
    result = future.result()
    assert isinstance(result, SendResult)
    assert (result.status, result.topic, result.queue_id) == (PutMessageStatus.PUT_OK, "t", 3)
    assert (result.queue_offset, result.physical_offset, result.store_timestamp) == (0, 0, 1234)
    assert (result.count, result.level) == (1, "appended")
    assert future.exception() is None
    assert future.result().message_id == result.message_id


def test_all_are_resolved_in_order_by_one_look(store: MemoryStore, sender: Sender) -> None:
    futures = [sender.send_async("t", b"x", queue=0) for _ in range(10)]
    store.answer(*[0] * 7)
    assert [future.done() for future in reversed(futures)] == [False] * 3 + [True] * 7
    assert [future.result().queue_offset for future in futures[:7]] == list(range(7))


def test_a_refusal_is_an_error_and_opens_the_topic_again(
    store: MemoryStore, sender: Sender
) -> None:
    futures = [sender.send_async("t", b"x") for _ in range(3)]
    store.answer(0, ILLEGAL, NOT_NOW)
    assert futures[0].result().status == PutMessageStatus.PUT_OK
    for future, status in zip(futures[1:], (ILLEGAL, NOT_NOW), strict=True):
        assert future.done()
        with pytest.raises(IllegalMessage, match="the store refused") as error:
            future.result()
        assert error.value.status == status
        assert future.exception() is error.value
    assert store.requests == [Open("t", write=True)]
    sender.send_oneway("t", b"x")
    assert store.requests == [Open("t", write=True)] * 2


def test_a_refusal_says_the_reason_of_its_time(store: MemoryStore, sender: Sender) -> None:
    future = sender.send_async("t", b"x")
    store.control.own("disk_flags").store(16)
    store.control.own("log_disk_used").store(93)
    store.answer(NOT_NOW)
    assert future.done()
    store.control.own("disk_flags").store(0)
    assert "93 % used" in str(future.exception())


# -- time-outs


def test_a_late_answer(store: MemoryStore, sender: Sender) -> None:
    future = sender.send_async("t", b"x")
    began = time.monotonic()
    with pytest.raises(SendTimeout, match=r"no answer for 0\.12 s.*not yet appended"):
        future.result(0.12)
    assert time.monotonic() - began >= 0.12
    with pytest.raises(SendTimeout):
        future.exception(0)
    store.answer(0)
    assert future.result(0).queue_offset == 0, "it is not lost"


def test_the_senders_timeout_is_the_default() -> None:
    sender = connect(MemoryStore(), timeout=0.05)
    with pytest.raises(SendTimeout, match=r"no answer for 0\.05 s"):
        sender.send_async("t", b"x").result()
    with pytest.raises(SendTimeout, match=r"no answer for 0\.01 s"):
        sender.send("t", b"x", timeout=0.01)


def test_a_waiting_thread_sees_the_answer(store: MemoryStore, sender: Sender) -> None:
    with answering(store):
        offsets = [sender.send("t", b"x", queue=0, timeout=30).queue_offset for _ in range(20)]
    assert offsets == list(range(20))


# -- syncs


@pytest.fixture
def durable() -> MemoryStore:
    return MemoryStore(level=int(AckLevel.DURABLE), sync_flush_timeout_ms=300)


def test_durable_means_flushed(durable: MemoryStore) -> None:
    sender = connect(durable)
    futures = [sender.send_async("t", b"x") for _ in range(3)]
    quick = sender.send_async("t", b"x", wait_store=False)
    size = len(durable.records()[0])
    durable.answer(0, 0, 0, 0)
    assert quick.done(), "it asked for no sync"
    assert quick.result().level == "appended"
    with pytest.raises(SendTimeout, match="appended, not yet durable"):
        futures[2].result(0.01)
    durable.control.own("flushed").store(1000 + size)  # the second begins at 1000
    assert [future.done() for future in futures] == [True, True, False]
    durable.control.own("flushed").store(1000 + size - 1)  # `flushed` never falls in earnest
    assert futures[1].result().level == "durable"


def test_a_sync_that_takes_too_long_is_a_status(durable: MemoryStore) -> None:
    sender = connect(durable)
    future = sender.send_async("t", b"x")
    durable.answer(0)
    result = future.result(30)
    assert result.status == PutMessageStatus.FLUSH_DISK_TIMEOUT
    assert result.level == "appended"


def test_in_the_pool_is_in_memory() -> None:
    store = MemoryStore(level=int(AckLevel.MEMORY))
    future = connect(store).send_async("t", b"x", wait_store=False)
    store.answer(0)
    assert future.result().level == "memory"


# -- callbacks


def test_callbacks_run_once_and_in_order(store: MemoryStore, sender: Sender) -> None:
    called: list[tuple[str, SendFuture]] = []
    first = sender.send_async("t", b"x", callback=lambda f: called.append(("a", f)))
    first.add_done_callback(lambda f: called.append(("b", f)))
    second = sender.send_async("t", b"x", callback=lambda f: called.append(("c", f)))
    store.answer(ILLEGAL, 0)
    eventually(lambda: len(called) == 3, "the producer's thread sees the answers")
    assert called == [("a", first), ("b", first), ("c", second)]
    first.add_done_callback(lambda f: called.append(("late", f)))
    assert called[3:] == [("late", first)]
    assert isinstance(first.exception(), IllegalMessage)


def test_one_thread_serves_all_callbacks(store: MemoryStore, sender: Sender) -> None:
    names: list[str] = []
    for _ in range(5):
        sender.send_async(
            "t", b"x", callback=lambda _: names.append(threading.current_thread().name)
        )
        store.answer(0)
    eventually(lambda: len(names) == 5, "callbacks")
    assert set(names) <= {"silomq-callbacks", threading.current_thread().name}
    assert sum(t.name == "silomq-callbacks" for t in threading.enumerate()) >= 1


def test_a_callback_may_send(store: MemoryStore, sender: Sender) -> None:
    done = threading.Event()

    def again(_: SendFuture) -> None:
        with answering(store):
            sender.send("t", b"again", timeout=30)
        done.set()

    sender.send_async("t", b"x", callback=again)
    store.answer(0)
    assert done.wait(30)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_no_callback_ends_the_thread_that_serves_all(
    store: MemoryStore,
    sender: Sender,
    error: type[BaseException],
    caplog: pytest.LogCaptureFixture,
) -> None:
    called: list[SendFuture] = []

    def broken(_: SendFuture) -> None:
        raise error

    first = sender.send_async("t", b"x", callback=broken)
    first.add_done_callback(called.append)
    second = sender.send_async("t", b"x", callback=called.append)
    store.answer(0, 0)
    eventually(lambda: called == [first, second], "the callbacks that follow")
    third = sender.send_async("t", b"x", callback=called.append)
    store.answer(0)
    eventually(lambda: called == [first, second, third], "callbacks of later messages")
    assert error.__name__ in caplog.text, "the log says what was raised"


def test_a_late_callback_is_as_any_other(
    store: MemoryStore, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    future = sender.send_async("t", b"x")
    store.answer(0)
    assert future.done()

    def broken(_: SendFuture) -> None:
        raise ZeroDivisionError

    future.add_done_callback(broken)
    assert "ZeroDivisionError" in caplog.text
    with pytest.raises(SystemExit):  # this thread is the caller's
        future.add_done_callback(lambda _: sys.exit())


@pytest.mark.parametrize("closed", ["by hand", "by asyncio.run"])
def test_a_loop_that_is_gone_ends_nothing(
    store: MemoryStore, sender: Sender, closed: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop is closed while an await in it is not over."""

    async def ask() -> SendResult:
        return await sender.send_async("t", b"x")

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(), 0.01)

    if closed == "by hand":
        loop = asyncio.new_event_loop()
        asking = ask().__await__()
        loop.call_soon(lambda: next(asking))  # as far as it comes
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        asking.close()
    else:
        asyncio.run(give_up())
    called: list[SendFuture] = []
    after = sender.send_async("t", b"x", callback=called.append)
    store.answer(0, 0)
    eventually(lambda: called == [after], "later callbacks")
    assert not caplog.records


@pytest.mark.parametrize("other", [True, False])
def test_a_callback_may_close_the_producer(
    store: MemoryStore, sender: Sender, *, other: bool
) -> None:
    """In the producer's thread, or in the one that asks for the result."""
    called: list[SendFuture] = []

    def close(future: SendFuture) -> None:
        session_of(sender).close()
        called.append(future)

    futures = [sender.send_async("t", b"x", callback=close)]
    futures += [sender.send_async("t", b"x", callback=called.append) for _ in range(3)]
    store.answer(0, 0)
    if not other:
        futures[0].result(30)
    eventually(lambda: len(called) == 4, "the callbacks")
    session_of(sender).close()
    for future in futures[:2]:
        assert future.exception() is None
    for future in futures[2:]:
        assert isinstance(future.exception(), StoreClosed)


def test_await(store: MemoryStore, sender: Sender) -> None:
    async def main() -> list[int]:
        futures = [sender.send_async("t", b"x", queue=0) for _ in range(5)]
        with answering(store):
            return [(await future).queue_offset for future in reversed(futures)]

    assert asyncio.run(main()) == [4, 3, 2, 1, 0]


# -- the end


def test_a_closed_sender_fails_what_is_open(store: MemoryStore, sender: Sender) -> None:
    called: list[SendFuture] = []
    answered, *others = (sender.send_async("t", b"x") for _ in range(3))
    others[1].add_done_callback(called.append)
    store.answer(0)
    assert answered.done()
    session_of(sender).close()
    assert called == [others[1]]
    for future in others:
        assert future.done()
        with pytest.raises(StoreClosed, match="the producer is closed"):
            future.result()
    assert answered.result().queue_offset == 0
