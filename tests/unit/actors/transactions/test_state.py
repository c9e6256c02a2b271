"""How far the process is: what a successor, clean and RocketMQ are told, and when."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.halves import half

from silomq.actors.transactions.state import State
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders
from silomq.store.transactions.book import Book
from silomq.store.transactions.progress import Progress, ProgressFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTHING_WAITS = 2**64 - 1


class Rig:
    def __init__(self, folders: StoreFolders) -> None:
        self.folders = folders
        self.control = Control(bytearray(SIZE), STARTUP)
        self.book = Book(0, 6000, 30_000)
        self.now = 0
        self.at(wrote=0, flushed=0)
        self.state = self.new_state()

    def new_state(self) -> State:
        world: Any = SimpleNamespace(folders=self.folders, pool=None)
        return State(world, self.control, None)

    def at(self, **words: int) -> None:
        for name, value in words.items():
            self.control.own(name).store(value)

    def note(self, decisions: int = 0, *, settled: bool = True) -> None:
        self.state.note(self.book, decisions, settled=settled)

    def tick(self) -> tuple[int, int, int]:
        """The floor, and the offsets for RocketMQ, after two more ticks."""
        for _ in range(2):
            self.now += 1001
            self.state.tick(self.book, self.now)
            if self.state._saving is not None:
                self.state._saving.result()
        words = ("trans_floor", "trans_half_next", "trans_op_next")
        return tuple(self.control.load(word) for word in words)  # type: ignore[return-value]

    def newest(self) -> Progress | None:
        return ProgressFile(self.folders.ours).newest(2**62)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with StoreFolders(tmp_path, create=True) as folders:
        yield Rig(folders)


def test_progress_counts_when_it_is_durable(rig: Rig) -> None:
    rig.book.add(half(1, "a"))
    rig.book.following = 5
    rig.at(wrote=7000)
    rig.note(decisions=3)
    assert rig.newest() == Progress(7000, 1, 0, 3)
    assert rig.tick() == (0, 0, 0)  # clean keeps all until then
    rig.at(flushed=7000)
    assert rig.tick() == (1000, 1, 0)
    rig.book.end(rig.book.due(10**12, 1)[0])
    rig.at(wrote=8000, flushed=7999)
    rig.note(decisions=3)
    assert rig.tick() == (1000, 1, 0)
    rig.at(flushed=8000)
    assert rig.tick() == (NOTHING_WAITS, 5, 0)


def test_the_log_is_kept_from_the_first_open_half_on_at_once(rig: Rig) -> None:
    """Also if no offset in a queue has changed: the first half of all is open."""
    rig.at(wrote=900, flushed=900)
    rig.note()
    assert rig.tick()[0] == NOTHING_WAITS
    rig.book.add(half(0, "a"))
    rig.at(wrote=1900)
    rig.note(settled=False)
    assert rig.control.load("trans_floor") == 0
    rig.note()
    assert rig.tick()[0] == 0
    rig.book.end(rig.book.due(10**12, 1)[0])
    rig.note()
    assert rig.tick()[0] == 0
    rig.at(flushed=1900)
    assert rig.tick()[0] == NOTHING_WAITS


def test_a_floor_that_is_being_made_durable_is_not_believed_later(rig: Rig) -> None:
    rig.at(wrote=900)
    rig.note()
    assert rig.tick()[0] == 0
    rig.book.add(half(0, "a"))
    rig.at(wrote=1900, flushed=1900)
    rig.note()
    assert rig.tick()[0] == 0


def test_without_op_records_the_progress_stays(rig: Rig) -> None:
    """A final record may lie in the log without one: a successor must look for it from there."""
    rig.at(wrote=100)
    rig.note(decisions=1)
    rig.at(wrote=200)
    rig.book.following = 9
    rig.note(decisions=2, settled=False)
    assert rig.newest() == Progress(100, 0, 0, 1)
    rig.note(decisions=2)
    assert rig.newest() == Progress(200, 9, 0, 2)


def test_op_records_are_needed_until_their_halves_are_passed(rig: Rig) -> None:
    for place, named in enumerate(([0, 3], [1], [2, 9], [])):
        rig.state.op_seen(place, named)
    for first, wanted in ((2, 0), (4, 2), (10, 4)):
        rig.book.following = first
        rig.note()
        assert rig.state.progress.op_next == wanted


def test_a_successor_goes_on_where_the_last_one_was(rig: Rig) -> None:
    rig.at(wrote=100)
    rig.book.following = 4
    rig.note(decisions=2)
    assert rig.new_state().progress == Progress(100, 4, 0, 2)
    rig.at(wrote=99)  # a log that lost its end knows less
    assert rig.new_state().progress == Progress()


@pytest.mark.parametrize(
    ("saved", "wanted"),
    [
        ({"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 70}}, (70, 0)),
        (
            {
                "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 3},
                "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 150_000},
            },
            (4, 50_000),
        ),
        ({}, (4, 0)),
    ],
)
def test_what_rocketmq_has_dealt_with_counts(
    rig: Rig, saved: dict[str, dict[int, int]], wanted: tuple[int, int]
) -> None:
    """But for some op records before its offset: RocketMQ goes on behind those that it needs."""
    rig.at(wrote=100)
    rig.book.following = 4
    rig.note(decisions=2)
    path = rig.folders.config.path
    text = json.dumps({"offsetTable": saved})
    with open(f"{path}/consumerOffset.json", "w", encoding="utf-8") as file:
        file.write(text.replace('"0":', "0:"))
    state = rig.new_state()
    state.after_rocketmq()
    assert (state.progress.half_next, state.progress.op_next) == wanted
    assert state.progress.decision_next == 2
