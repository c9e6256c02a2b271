"""The supervisor's mail: it waits while a socket is full, and its reader is woken for it."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from support.harness import tries_within

from silomq.shm import mail
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.shm.protocol.sessions import AttachBell, DetachBell
from silomq.supervisor.outbox import Outbox, Sleeper

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from silomq.shm._words import Word

DECODER: msgspec.json.Decoder[AttachBell | DetachBell] = msgspec.json.Decoder(
    AttachBell | DetachBell
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    pair = mail.pair()
    yield pair
    for end in pair:
        end.close()


@pytest.fixture
def control() -> Control:
    return Control(bytearray(SIZE), STARTUP)


def received(end: socket.socket) -> list[AttachBell | DetachBell]:
    found: list[AttachBell | DetachBell] = []
    while True:
        try:
            message, fds = mail.receive(end, DECODER)
        except BlockingIOError:
            return found
        mail.close_all(fds)
        assert message is not None
        found.append(message)


def test_messages_come_in_order_and_are_counted(
    ends: tuple[socket.socket, socket.socket], control: Control
) -> None:
    box = Outbox(ends[0], control.own("bell_mail"))
    sent = [AttachBell(1), DetachBell(1), AttachBell(2)]
    for message in sent:
        box.put(message)
    assert control.load("bell_mail") == 0
    box.send()
    assert control.load("bell_mail") == 3
    assert received(ends[1]) == sent
    box.send()
    assert control.load("bell_mail") == 3


def test_what_a_full_socket_does_not_take_waits(
    ends: tuple[socket.socket, socket.socket], control: Control
) -> None:
    box = Outbox(ends[0], control.own("bell_mail"))
    sent = [DetachBell(number) for number in range(5000)]
    for message in sent:
        box.put(message)
    found: list[AttachBell | DetachBell] = []
    while len(found) < len(sent):
        box.send()
        assert control.load("bell_mail") > len(found), "some are sent each time"
        found += received(ends[1])
    assert found == sent


def test_what_brings_a_descriptor_that_closes_is_dropped(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    box = Outbox(ends[0], None)
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
    box.put(AttachBell(1), (fds[0],))
    box.put(DetachBell(1))
    box.put(AttachBell(2), (fds[1],))
    box.drop((fds[0],))
    os.close(fds[0])
    box.send()
    os.close(fds[1])
    assert received(ends[1]) == [DetachBell(1), AttachBell(2)]


def test_a_sleeper_is_woken(ends: tuple[socket.socket, socket.socket], control: Control) -> None:
    """It sleeps on another word, and would sleep for ten seconds."""
    count = control.own("bell_mail")
    asleep, wrote = control.own("flush_asleep"), control.word("wrote")
    box = Outbox(ends[0], count, Sleeper(wrote, asleep, control.beat("flush")))
    slept: list[float] = []

    def sleep(seen: int) -> None:
        began = time.monotonic()
        wrote.sleep(0, 10.0, asleep, count, seen)
        slept.append(time.monotonic() - began)

    for number in range(40):
        thread = threading.Thread(target=sleep, args=(count.load(),))
        thread.start()
        time.sleep(number % 4 * 0.001)
        box.put(DetachBell(number))
        box.send()
        thread.join()
    assert max(slept) < 5


def test_one_who_does_not_wake_holds_up_nobody(control: Control) -> None:
    control.own("flush_asleep").store(1)  # for ever
    beat = control.beat("flush")
    sleeper = Sleeper(control.word("wrote"), control.word("flush_asleep"), beat)
    tries_within(0.5, sleeper.wake)


def test_one_who_sleeps_again_is_not_woken_twice(control: Control) -> None:
    """It has beaten since, and has looked for mail."""
    control.own("flush_asleep").store(1)

    class Beats:
        """A heartbeat that goes on at each look."""

        looks = 0

        def load(self) -> int:
            self.looks += 1
            return self.looks

    beats = Beats()
    Sleeper(control.word("wrote"), control.word("flush_asleep"), cast("Word", beats)).wake()
    assert beats.looks == 2
