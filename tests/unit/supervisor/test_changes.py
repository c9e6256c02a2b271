"""Changes that clients ask for: each is made once, and those who listen hear all of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import msgspec
import pytest

from silomq.shm import mail
from silomq.shm.protocol.changes import Outcome, Step
from silomq.shm.protocol.sessions import ChangeAsked
from silomq.supervisor.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAID: msgspec.json.Decoder[Step | Outcome] = msgspec.json.Decoder(Step | Outcome)


class Listeners:
    """Those who ask `changes` for something."""

    def __init__(self) -> None:
        self.changes = Changes()
        self._ends: list[socket.socket] = []

    def ask(self, number: int) -> socket.socket:
        speaks, listens = mail.pair()
        self._ends.append(listens)
        self.changes.ask(ChangeAsked(1, number, "actor", "append", 0), speaks.detach())
        return listens

    def close(self) -> None:
        for end in self._ends:
            end.close()


def heard(end: socket.socket) -> list[Step | Outcome | None]:
    """What was said there; None at the end if the supervisor hung up."""
    found: list[Step | Outcome | None] = []
    while True:
        try:
            message, _ = mail.receive(end, _SAID)
        except BlockingIOError:
            return found
        found.append(message)
        if message is None:
            return found


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    found = Listeners()
    yield found
    found.close()


def test_a_change_that_is_asked_for_twice_is_made_once(listeners: Listeners) -> None:
    first = listeners.ask(5)
    change = listeners.changes.next()
    assert change is not None
    change.say("begins")
    second = listeners.ask(5)
    assert listeners.changes.next() is None
    change.finish("over", done=True, stalls_ms={"append": 1.26})
    all_of_it = [Step("begins"), Outcome("over", True, {"append": 1.3}), None]
    assert heard(first) == heard(second) == all_of_it
    assert heard(listeners.ask(5)) == all_of_it, "also when it is over"


def test_changes_are_made_in_order_and_few_may_wait(listeners: Listeners) -> None:
    waiting = [listeners.ask(number) for number in range(4)]
    (refused, end) = heard(listeners.ask(4))
    assert isinstance(refused, Outcome)
    assert not refused.done
    assert "4 other changes wait" in refused.text
    assert end is None
    numbers = []
    while (change := listeners.changes.next()) is not None:
        numbers.append(change.asked.number)
        change.finish("over", done=True)
    assert numbers == [0, 1, 2, 3]
    assert all(heard(end)[-1] is None for end in waiting)


def test_a_store_that_stops_refuses_those_that_wait(listeners: Listeners) -> None:
    waits = listeners.ask(1)
    listeners.changes.end()
    (refused, end) = heard(waits)
    assert isinstance(refused, Outcome)
    assert "stops" in refused.text
    assert end is None


def test_a_listener_that_has_gone_holds_nothing_up(listeners: Listeners) -> None:
    gone, stays = listeners.ask(1), listeners.ask(1)
    gone.close()
    change = listeners.changes.next()
    assert change is not None
    for number in range(2000):  # more than the socket of one who does not read has room for
        change.say(f"step {number}")
    change.finish("over", done=True)
    assert heard(stays)[0] == Step("step 0")
