"""Timers, calls of other threads, and connections that are idle or gone."""

from __future__ import annotations

import functools
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.echo import Echo, frame, read
from support.harness import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as running:
        yield running


def test_timers_come_in_their_order(echo: Echo) -> None:
    seen: list[int] = []

    def begin() -> None:
        for number in (3, 1, 2):
            echo.loop.call_later(number * 0.05, functools.partial(seen.append, number))
        echo.loop.call_later(0.07, lambda: seen.append(99)).cancel()
        echo.loop.call_soon(lambda: seen.append(0))

    began = time.monotonic()
    echo.call(begin)
    eventually(lambda: len(seen) == 4, "all were called", 5)
    assert seen == [0, 1, 2, 3]
    assert time.monotonic() - began >= 0.15


def test_a_timer_wakes_the_loop(echo: Echo) -> None:
    """It sleeps a second otherwise."""
    for _ in range(3):
        done = threading.Event()
        echo.call(functools.partial(echo.loop.call_later, 0.02, done.set))
        began = time.monotonic()
        assert done.wait(5)
        if time.monotonic() - began < 0.5:
            return
    raise AssertionError("it was late three times")


def test_connections_that_are_idle(echo: Echo) -> None:
    with echo.connect() as idle, echo.connect() as busy:
        for end in (idle, busy):
            end.sendall(frame(b"x"))
            read(end, 9)
        time.sleep(0.3)
        busy.sendall(frame(b"x"))
        read(busy, 9)
        found: list[str] = []
        echo.call(lambda: found.extend(one.peer for one in echo.loop.idle(0.2)))
        assert found == ["{}:{}".format(*idle.getsockname())]


def test_connections_that_are_gone_leave_nothing(echo: Echo) -> None:
    for number in range(200):
        with echo.connect() as end:
            if number % 2:
                end.sendall(frame(b"x") + b"half")
            if number % 3:  # it ends with a reset
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: len(echo.ends) == 200, "all have ended", 5)
    eventually(lambda: not echo.loop.connections, "all are forgotten", 5)
    assert echo.limits.holds == 0


def test_a_watched_descriptor(echo: Echo) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        seen: list[bytes] = []
        echo.call(lambda: echo.loop.watch(theirs.fileno(), lambda: seen.append(theirs.recv(10))))
        ours.send(b"a")
        eventually(lambda: seen == [b"a"], "it was called", 5)
        echo.call(lambda: echo.loop.unwatch(theirs.fileno()))
        ours.send(b"b")
        time.sleep(0.1)
        assert seen == [b"a"]


def test_a_call_after_the_end_does_nothing() -> None:
    with Echo() as ended:
        pass
    called: list[int] = []
    ended.loop.call_from_thread(lambda: called.append(1))
    assert called == []
