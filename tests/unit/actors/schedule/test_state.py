"""How far the log may be cleaned away while messages wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from silomq.actors.schedule.state import State
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.delay.timers import Timers
from silomq.store.disk.paths import StoreFolders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTHING_WAITS = 2**64 - 1


@dataclass
class Waiting:
    """A level's queue: the log offsets of its messages."""

    places: list[int] = field(default_factory=list)

    @property
    def start(self) -> Any:
        return SimpleNamespace(load=lambda: 0)

    @property
    def end(self) -> Any:
        return SimpleNamespace(load=lambda: len(self.places))

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        return [(place, 100, 0) for place in self.places[first : first + count]]


class Rig:
    """The state of a schedule process with one level, and the words that it looks at."""

    def __init__(self, folders: StoreFolders) -> None:
        self.control = Control(bytearray(SIZE), STARTUP)
        self.queue = Waiting()
        world: Any = SimpleNamespace(folders=folders)
        timers = Timers(folders.ours)
        self.state = State(world, self.control, timers, None, lambda: False)

    def floor(self, *, wrote: int, flushed: int) -> int:
        """After a tick with these positions."""
        for word, value in (("wrote", wrote), ("dispatched", wrote), ("flushed", flushed)):
            self.control.own(word).store(value)
        queue: Any = self.queue
        self.state.note_floor([queue], None)
        return self.control.load("schedule_floor")

    def deliver(self, end: int) -> None:
        """The level's next message, whose delivery ends at this log offset."""
        self.state.done(0, self.state.progress.next[0])
        self.state.scanned(end)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with StoreFolders(tmp_path, create=True) as folders:
        yield Rig(folders)


def test_without_delayed_messages_all_may_go(rig: Rig) -> None:
    assert rig.floor(wrote=1000, flushed=900) == 0
    assert rig.floor(wrote=2000, flushed=1500) == NOTHING_WAITS
    assert rig.floor(wrote=3000, flushed=1600) == NOTHING_WAITS


def test_a_message_stays_until_its_delivery_is_durable(rig: Rig) -> None:
    assert rig.floor(wrote=1000, flushed=1000) == NOTHING_WAITS
    rig.queue.places = [1100, 1300]
    assert rig.floor(wrote=2000, flushed=1000) == 1100, "it falls at once"
    rig.deliver(2500)
    assert rig.floor(wrote=2500, flushed=1000) == 1100
    assert rig.floor(wrote=2600, flushed=2000) == 1100
    assert rig.floor(wrote=2700, flushed=2500) == 1100
    assert rig.floor(wrote=2800, flushed=2700) == 1300, "one waits"
    rig.deliver(3000)
    assert rig.floor(wrote=3000, flushed=2900) == 1300
    assert rig.floor(wrote=3500, flushed=3000) == NOTHING_WAITS


def test_one_that_came_and_was_delivered_meanwhile_stays_too(rig: Rig) -> None:
    rig.queue.places = [1100]
    assert rig.floor(wrote=2000, flushed=2000) == 1100
    rig.deliver(2100)
    assert rig.floor(wrote=2100, flushed=2000) == 1100
    rig.queue.places.append(2200)
    rig.deliver(2300)
    assert rig.floor(wrote=2300, flushed=2100) == 2100, "up to 2200 nothing is needed"
    assert rig.floor(wrote=2400, flushed=2299) == 2100
    assert rig.floor(wrote=2400, flushed=2400) == NOTHING_WAITS
