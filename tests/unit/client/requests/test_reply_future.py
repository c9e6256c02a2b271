"""Futures of replies, in threads and event loops."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading

import pytest

from silomq import IllegalType, MessageView, ReplyFuture, RequestTimeout, StoreClosed
from silomq.client.requests.reply_future import set_outcome, wake
from silomq.store.record.format import encode_record

REPLY = MessageView(encode_record(b"t", b"x", b""), 0)


@pytest.fixture
def future() -> ReplyFuture:
    return ReplyFuture("topic", "c")


def resolve(future: ReplyFuture, error: Exception | None = None) -> None:
    set_outcome(future, REPLY if error is None else None, error)
    wake(future)


def test_threads_wait(future: ReplyFuture) -> None:
    found: list[MessageView] = []
    threads = [threading.Thread(target=lambda: found.append(future.result())) for _ in range(3)]
    for thread in threads:
        thread.start()
    resolve(future)
    for thread in threads:
        thread.join()
    assert found == [REPLY] * 3


def test_a_wait_ends_and_leaves_nothing(future: ReplyFuture) -> None:
    for _ in range(3):
        with pytest.raises(RequestTimeout, match=r"for 0.001 s"):
            future.result(0.001)
    assert future._waiting == []
    with pytest.raises(RequestTimeout):
        future.exception(0)
    resolve(future)
    assert future.result(0) is REPLY


def test_loops_wait(future: ReplyFuture) -> None:
    async def wait() -> list[MessageView]:
        asyncio.get_running_loop().call_later(
            0.01, lambda: threading.Thread(target=resolve, args=(future,)).start()
        )

        async def one() -> MessageView:
            return await future

        gone = asyncio.ensure_future(one())
        await asyncio.sleep(0)
        gone.cancel()
        return list(await asyncio.gather(one(), one()))

    assert asyncio.run(wait()) == [REPLY, REPLY]
    assert asyncio.run(wait()) == [REPLY, REPLY]


def test_a_loop_that_was_closed_is_no_concern(future: ReplyFuture) -> None:
    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(_wait(future)), 0.01)

    asyncio.run(give_up())
    resolve(future)
    assert future.done()


async def _wait(future: ReplyFuture) -> MessageView:
    return await future


def test_an_error_is_raised_where_one_waits(future: ReplyFuture) -> None:
    resolve(future, StoreClosed("gone"))
    with pytest.raises(StoreClosed):
        asyncio.run(_wait(future))


def test_callbacks_are_called_once_in_their_order(
    future: ReplyFuture, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fails(_: ReplyFuture) -> None:
        raise KeyError("the user's own")

    future.add_done_callback(lambda _: calls.append(1))
    future.add_done_callback(fails)
    future.add_done_callback(lambda _: calls.append(2))
    with caplog.at_level(logging.ERROR, "silomq"):
        resolve(future)
    future.add_done_callback(lambda _: calls.append(3))
    assert calls == [1, 2, 3]
    assert "callback failed" in caplog.text
    with pytest.raises(IllegalType):
        future.add_done_callback(7)  # type: ignore[arg-type]
    with pytest.raises(IllegalType):
        copy.copy(future)
