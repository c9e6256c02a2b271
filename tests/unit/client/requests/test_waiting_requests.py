"""Requests that wait: each ends once, at its time at the latest."""

from __future__ import annotations

import math
import time

import pytest

from silomq import MessageView, ReplyFuture, RequestTimeout, StoreClosed
from silomq.client.requests import waiting_requests
from silomq.client.requests.waiting_requests import WaitingRequests
from silomq.store.record.format import encode_record

REPLY = MessageView(encode_record(b"t", b"x", b""), 0)


@pytest.fixture
def waiting() -> WaitingRequests:
    return WaitingRequests()


def added(waiting: WaitingRequests, name: str, seconds: float) -> ReplyFuture:
    future = ReplyFuture("topic", name)
    waiting.add(future, seconds)
    return future


def test_the_first_end_counts(waiting: WaitingRequests) -> None:
    future = added(waiting, "a", 60.0)
    calls: list[ReplyFuture] = []
    future.add_done_callback(calls.append)
    assert waiting.reply("a", REPLY)
    assert not waiting.reply("a", REPLY)
    waiting.fail("a", StoreClosed("no"))
    assert (future.result(), future.exception(), calls) == (REPLY, None, [future])
    assert len(waiting) == 0


def test_an_error_is_raised_and_told(waiting: WaitingRequests) -> None:
    future, error = added(waiting, "a", math.inf), StoreClosed("gone")
    waiting.fail_all(error)
    assert future.exception() is error
    with pytest.raises(StoreClosed, match="gone"):
        future.result()


def test_those_that_are_late_end_in_their_order(waiting: WaitingRequests) -> None:
    first, second, later, never = (
        added(waiting, name, s) for name, s in zip("abcd", (0.0, 0.0, 60.0, math.inf), strict=True)
    )
    waiting.note_place("a", "topic[1]@7")
    waiting.note_place("unknown", "x")
    assert time.monotonic() < waiting.end_late() <= time.monotonic() + 60.0
    assert (first.done(), second.done(), later.done(), never.done()) == (True, True, False, False)
    with pytest.raises(RequestTimeout, match=r"is stored as topic\[1\]@7"):
        first.result()
    with pytest.raises(RequestTimeout, match="has no answer of the store yet"):
        second.result()
    waiting.reply("c", REPLY)
    assert len(waiting) == 1


def test_times_of_ended_requests_are_sorted_out(
    waiting: WaitingRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_requests, "_MOST_ENDED", 10)
    kept = added(waiting, "kept", 30.0)
    for number in range(100):
        added(waiting, str(number), 60.0)
        waiting.reply(str(number), REPLY)
    assert len(waiting._ends) <= 13
    assert waiting.end_late() < time.monotonic() + 30.0
    waiting.reply("kept", REPLY)
    assert kept.done()


def test_a_forked_child_ends_all_and_calls_nobody(waiting: WaitingRequests) -> None:
    future = added(waiting, "a", math.inf)
    calls: list[ReplyFuture] = []
    future.add_done_callback(calls.append)
    waiting.abandon(StoreClosed("child"))
    assert isinstance(future.exception(0), StoreClosed)
    assert calls == []
