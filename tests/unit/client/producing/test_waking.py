"""A producer that sleeps without a thread: awaits in loops, and a descriptor for loops of another
kind. The store is the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.bells import is_readable
from support.children import in_child
from support.harness import eventually
from support.memory_store import MemoryStore, answering, connect
from support.open_files import nothing_stays_open

from silomq import ForkedChild, IllegalMessage, PutMessageStatus, StoreClosed
from silomq.client.producing._sender import Sender, session_of
from silomq.store.status import AckLevel

if TYPE_CHECKING:
    from silomq import SendFuture, SendResult


async def result_of(future: SendFuture) -> SendResult:
    return await asyncio.wait_for(future, 30)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


# -- in event loops


def test_an_await_needs_no_thread(store: MemoryStore, sender: Sender) -> None:
    async def main() -> None:
        before = threads()
        for turn in range(20):
            task = asyncio.create_task(result_of(sender.send_async("t", b"x", queue=0)))
            await asyncio.sleep(0.001 * (turn % 2))
            store.answer(0)
            assert (await task).queue_offset == turn
        assert threads() == before

    asyncio.run(main())


def test_a_future_that_is_resolved_is_not_waited_for(store: MemoryStore, sender: Sender) -> None:
    future = sender.send_async("t", b"x")
    store.answer(0)
    with pytest.raises(StopIteration):
        next(future.__await__())
    assert not session_of(sender).waking.in_use


def test_a_refusal_is_raised(store: MemoryStore, sender: Sender) -> None:
    async def main() -> None:
        task = asyncio.create_task(result_of(sender.send_async("t", b"x")))
        await asyncio.sleep(0.01)
        store.answer(int(PutMessageStatus.MESSAGE_ILLEGAL))
        with pytest.raises(IllegalMessage):
            await task

    asyncio.run(main())


def test_many_await_at_once(store: MemoryStore, sender: Sender) -> None:
    async def main() -> list[int]:
        tasks = [
            asyncio.create_task(result_of(sender.send_async("t", b"x", queue=0)))
            for _ in range(200)
        ]
        with answering(store):
            return [(await task).queue_offset for task in tasks]

    assert asyncio.run(main()) == list(range(200))


def test_loops_of_many_threads_share_a_producer(store: MemoryStore, sender: Sender) -> None:
    """One wakes up first, takes the answers of all, and tells the others."""
    found: list[int] = []

    async def work() -> None:
        for _ in range(100):
            result = await result_of(sender.send_async("t", b"x", queue=0))
            found.append(result.queue_offset)

    workers = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(4)]
    with answering(store):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(found) == list(range(400))


def test_one_loop_sleeps_on_while_another_is_answered(store: MemoryStore, sender: Sender) -> None:
    first, second = (sender.send_async("t", b"x", queue=0) for _ in range(2))
    done: list[str] = []

    async def work(future: SendFuture, name: str) -> None:
        await result_of(future)
        done.append(name)

    workers = [
        threading.Thread(target=asyncio.run, args=(work(future, name),))
        for future, name in ((second, "second"), (first, "first"))
    ]
    for worker in workers:
        worker.start()
    time.sleep(0.05)
    store.answer(0)
    eventually(lambda: done == ["first"], "the first")
    store.answer(0)
    for worker in workers:
        worker.join()
    assert done == ["first", "second"]


def test_a_cancelled_await_harms_no_other(store: MemoryStore, sender: Sender) -> None:
    async def main() -> None:
        future = sender.send_async("t", b"x", queue=0)
        tasks = [asyncio.create_task(result_of(future)) for _ in range(3)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]
        store.answer(0)
        assert [(await task).queue_offset for task in tasks[1:]] == [0, 0]

    asyncio.run(main())


def test_callbacks_and_awaits_of_one_producer(store: MemoryStore, sender: Sender) -> None:
    called: list[SendFuture] = []

    async def main() -> None:
        futures = [sender.send_async("t", b"x", callback=called.append) for _ in range(50)]
        with answering(store):
            for future in futures:
                await result_of(future)

    asyncio.run(main())
    eventually(lambda: len(called) == 50, "each callback")


def test_a_wait_for_a_sync_times_out_in_the_loop() -> None:
    store = MemoryStore(level=int(AckLevel.DURABLE), sync_flush_timeout_ms=300)
    sender = connect(store)

    async def main() -> None:
        before = threads()
        task = asyncio.create_task(result_of(sender.send_async("t", b"x")))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        store.answer(0)
        assert (await task).status == PutMessageStatus.FLUSH_DISK_TIMEOUT
        assert 0.25 < time.monotonic() - began < 5
        task = asyncio.create_task(result_of(sender.send_async("t", b"x")))
        await asyncio.sleep(0.01)
        store.answer(0)
        await asyncio.sleep(0.01)
        assert not task.done()
        store.sync(1 << 20)
        assert (await task).status == PutMessageStatus.PUT_OK
        assert threads() == before

    asyncio.run(main())
    session_of(sender).close()
    store.close()


def test_without_a_bell_the_thread_of_callbacks_serves(store: MemoryStore, sender: Sender) -> None:
    store.makes_bells = False

    async def main() -> None:
        with answering(store):
            assert (await result_of(sender.send_async("t", b"x"))).queue_offset == 0

    asyncio.run(main())
    with pytest.raises(IllegalMessage, match="no descriptors"):
        session_of(sender).fileno()


# -- the end of the store


def test_a_store_that_goes_ends_the_await(store: MemoryStore, sender: Sender) -> None:
    async def main() -> None:
        task = asyncio.create_task(result_of(sender.send_async("t", b"x")))
        await asyncio.sleep(0.01)
        store.lose()
        began = time.monotonic()
        with pytest.raises(StoreClosed, match="unanswered"):
            await task
        assert time.monotonic() - began < 0.5, "the bell hung up"

    asyncio.run(main())


def test_a_producer_that_is_closed_ends_the_await(store: MemoryStore, sender: Sender) -> None:
    """By another thread, and nothing of it stays open."""

    async def main() -> None:
        task = asyncio.create_task(result_of(sender.send_async("t", b"x")))
        await asyncio.sleep(0.01)
        closing = threading.Thread(target=session_of(sender).close)
        closing.start()
        with pytest.raises(StoreClosed, match="the producer is closed"):
            await task
        closing.join()

    asyncio.run(main())


def test_an_await_goes_on_with_a_new_session() -> None:
    stores = [MemoryStore(), MemoryStore()]
    sender = connect(*stores, on_restart="retry")

    async def main() -> None:
        fd = session_of(sender).fileno()
        task = asyncio.create_task(result_of(sender.send_async("t", b"again")))
        await asyncio.sleep(0.01)
        stores[0].lose()
        with answering(stores[1]):
            assert (await task).queue_offset == 0
        assert session_of(sender).fileno() == fd
        task = asyncio.create_task(result_of(sender.send_async("t", b"later")))
        await asyncio.sleep(0.01)
        stores[1].answer(0)
        assert (await task).queue_offset == 1

    asyncio.run(main())
    session_of(sender).close()
    for each in stores:
        each.close()


def test_a_producer_that_nobody_has_leaves_no_descriptor() -> None:
    store = MemoryStore()
    store.own_bell()

    async def main(sender: Sender) -> None:
        task = asyncio.create_task(result_of(sender.send_async("t", b"x")))
        await asyncio.sleep(0.01)  # it waits by now: an answer that is there needs no descriptor
        with answering(store):
            await task

    with nothing_stays_open():
        sender = connect(store)
        asyncio.run(main(sender))
        assert session_of(sender).waking.in_use
        del sender
        gc.collect()
    store.close()


def test_a_forked_child_gets_an_error(store: MemoryStore, sender: Sender) -> None:
    async def main() -> None:
        future = sender.send_async("t", b"x")
        task = asyncio.create_task(result_of(future))
        await asyncio.sleep(0.01)

        def work() -> str:
            with pytest.raises(ForkedChild):
                next(future.__await__())
            with pytest.raises(ForkedChild):
                session_of(sender).fileno()
            return ""

        in_child(work)
        store.answer(0)
        assert (await task).queue_offset == 0

    asyncio.run(main())


# -- the descriptor


def test_the_descriptor_is_readable_after_each_look(store: MemoryStore, sender: Sender) -> None:
    fd = session_of(sender).fileno()
    assert is_readable(fd), "the bell that was just made"
    assert not session_of(sender).poll()
    assert not is_readable(fd)
    future = sender.send_async("t", b"x", queue=0)
    assert not is_readable(fd)
    for turn in range(20):
        if turn % 2:
            assert session_of(sender).poll()
        else:
            assert not future.done()
        assert not is_readable(fd)
        store.answer(0)
        assert is_readable(fd)
        assert future.done()
        future = sender.send_async("t", b"x", queue=0)


def test_the_descriptor_tells_of_syncs() -> None:
    store = MemoryStore(level=int(AckLevel.DURABLE))
    sender = connect(store)
    session = session_of(sender)
    fd = session.fileno()
    future = sender.send_async("t", b"x")
    assert session.poll()
    store.sync(0)
    assert not is_readable(fd), "no frame waits for a sync yet"
    store.answer(0)
    assert is_readable(fd)
    assert session.poll()
    assert not is_readable(fd)
    store.sync(1 << 20)
    assert is_readable(fd)
    assert not session.poll()
    assert future.result(0).level == "durable"
    session.close()
    store.close()


def test_poll_runs_callbacks_in_this_thread(store: MemoryStore, sender: Sender) -> None:
    session_of(sender).fileno()
    future = sender.send_async("t", b"x")
    store.answer(0)
    session_of(sender).poll()
    called: list[str] = []
    future.add_done_callback(lambda _: called.append(threading.current_thread().name))
    assert called == [threading.current_thread().name]


def test_the_descriptor_tells_of_the_end(store: MemoryStore, sender: Sender) -> None:
    session = session_of(sender)
    fd = session.fileno()
    future = sender.send_async("t", b"x")
    assert session.poll()
    assert not is_readable(fd)
    store.lose()
    assert is_readable(fd)
    assert future.done()
    assert isinstance(future.exception(), StoreClosed)
    with pytest.raises(StoreClosed):
        session.poll()
    with pytest.raises(StoreClosed):
        session.fileno()


def test_the_descriptor_stays_while_the_store_restarts() -> None:
    stores = [MemoryStore(), MemoryStore()]
    sender = connect(*stores, on_restart="retry")
    session = session_of(sender)
    fd = session.fileno()
    future = sender.send_async("t", b"x")
    assert session.poll()
    stores[0].lose()
    assert is_readable(fd)
    session.poll()
    eventually(stores[1].records, "the producer's own thread reconnects")
    eventually(lambda: is_readable(fd), "the new bell")
    session.poll()
    eventually(lambda: not is_readable(fd) or not session.poll(), "nothing to do")
    stores[1].answer(0)
    assert is_readable(fd)
    assert future.done()
    assert session.fileno() == fd
    session.close()
    for each in stores:
        each.close()
