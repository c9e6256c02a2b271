"""The control block's header, process table and progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.shm._words import OwnedWord, Word
from silomq.shm.control import (
    ACTORS,
    ARRIVAL_WORDS,
    CONTROL,
    HEARTBEAT_SIZE,
    SIZE,
    SUPERVISOR,
    WRITERS,
    ActorState,
    Control,
    LayoutError,
)
from silomq.shm.ownership import READER, STARTUP, NotTheWriter
from silomq.shm.progress import PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable


def new_control() -> Control:
    control = Control(bytearray(SIZE), STARTUP)
    control.create(0xFEDCBA9876543210)
    return control


def test_a_fresh_block_is_whole() -> None:
    control = new_control()
    control.check()
    assert control.load("store_id") == 0xFEDCBA9876543210
    assert control.load("wrote") == 0


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("magic", 0, "magic is missing"),
        ("magic", 1, "magic is missing"),
        ("layout_version", 2, "layout version 2, this program knows 1"),
        ("store_id", 1, "CRC-32C"),
        ("header_crc", 0, "CRC-32C"),
    ],
)
def test_another_block_is_refused(field: str, value: int, complaint: str) -> None:
    control = new_control()
    control.own(field).store(value)
    with pytest.raises(LayoutError, match=complaint):
        control.check()


def test_an_unfinished_block_has_no_magic() -> None:
    with pytest.raises(LayoutError, match="magic"):
        Control(bytearray(SIZE)).check()


def test_words_are_typed() -> None:
    control = new_control()
    assert type(control.word("wrote")) is Word
    assert type(control.own("wrote")) is OwnedWord
    control.own("wrote").store(77)
    assert control.load("wrote") == control.word("wrote").load() == 77
    reader = Control(memoryview(control.memory).toreadonly())
    assert reader.load("wrote") == 77
    with pytest.raises(NotTheWriter):
        reader.own("wrote")
    with pytest.raises(TypeError):
        Control(reader.memory, "append").own("wrote")


#: What takes each word: its name, and its position within a field of several words.
WORDS = [
    (field, extra)
    for field, (_, size) in CONTROL.items()
    if field != "heartbeat"
    for extra in {0, size - 8}
]


@pytest.mark.parametrize("role", [*ACTORS, "supervisor", READER])
def test_a_process_is_given_its_own_words_alone(role: str) -> None:
    control = Control(new_control().memory, role)
    for field, extra in WORDS:
        writer = WRITERS["control"].get(field, STARTUP)
        if writer == role:
            assert type(control.own(field, extra)) is OwnedWord
        else:
            with pytest.raises(NotTheWriter) as got:
                control.own(field, extra)
            assert str(got.value) == (
                f"{field} is written by {writer} alone, and {role} asked to write it"
            )
        assert not hasattr(control.word(field, extra), "store")


def test_startup_may_write_every_word() -> None:
    control = new_control()
    assert all(type(control.own(*word)) is OwnedWord for word in WORDS)


@pytest.mark.parametrize("role", [*ACTORS, "supervisor"])
def test_each_process_has_its_own_heartbeat(role: str) -> None:
    control = Control(new_control().memory, role)
    control.own_beat().store(5)
    assert control.beat(role).load() == 5
    for number, name in [*enumerate(ACTORS), (SUPERVISOR, "supervisor")]:
        if name != role:
            assert control.beat(name).load() == 0
            with pytest.raises(NotTheWriter, match=f"heartbeat is written by {name} alone"):
                control.own("heartbeat", HEARTBEAT_SIZE * number)


@pytest.mark.parametrize("role", [*ACTORS, "supervisor", READER])
def test_methods_that_write_ask_who_calls(role: str) -> None:
    control = Control(new_control().memory, role)
    calls: list[tuple[str, Callable[[], None]]] = [
        ("registry", lambda: control.watch(0)),
        ("registry", control.watch_none),
        ("supervisor", lambda: control.store_process(0, 1, 1, 1, ActorState.READY)),
        ("reput", lambda: control.set_progress(Progress())),
        (STARTUP, lambda: control.create(1)),
    ]
    for writer, call in calls:
        if writer == role:
            call()
        else:
            with pytest.raises(NotTheWriter):
                call()


@pytest.mark.parametrize(
    ("field", "extra"),
    [("wrote", 8), ("wrote", -8), ("watched", 128), ("process", 1024), ("heartbeat", -64)],
)
def test_no_word_lies_outside_its_field(field: str, extra: int) -> None:
    control = new_control()
    with pytest.raises(IndexError, match=field):
        control.own(field, extra)
    with pytest.raises(IndexError, match=field):
        control.word(field, extra)


def test_progress_is_published_whole_or_not() -> None:
    control = new_control()
    first = Progress.of(10 + i for i, _ in enumerate(PROGRESS))
    control.set_progress(first)
    assert control.progress() == first
    assert control.load("dispatched") == first.dispatched
    assert control.load("dispatch_count") == first.dispatch_count
    second = Progress.of(10 * value for value in first.fields().values())
    # A writer that dies in the other slot changes nothing.
    other = CONTROL[f"progress_{(control.load('progress_generation') + 1) % 2}"][0]
    for at, _ in list(PROGRESS.values())[:5]:
        OwnedWord(control.memory, other + at).store(999)
    assert control.progress() == first
    control.set_progress(second)
    assert control.progress() == second
    slots = {control.load("progress_generation") % 2}
    control.set_progress(first)
    slots.add(control.load("progress_generation") % 2)
    assert slots == {0, 1}


def test_progress_has_the_fields_of_the_layout() -> None:
    progress = Progress.of(range(len(PROGRESS)))
    assert list(progress.fields().items()) == [
        (name, at // 8) for name, (at, _) in PROGRESS.items()
    ]
    for name, value in progress.fields().items():
        if name in ("dispatched", "dispatch_count"):
            assert getattr(progress, name) == value
        else:
            assert getattr(progress.index, name.removeprefix("index_")) == value
    assert set(Progress().fields().values()) == {0}


def test_the_process_table() -> None:
    control = new_control()
    for actor in (*range(len(ACTORS)), SUPERVISOR):
        assert control.process(actor) == (0, 0, 0, ActorState.ABSENT)
        control.store_process(actor, 1000 + actor, 2, 3, ActorState.READY)
        control.own("heartbeat", HEARTBEAT_SIZE * actor).store(actor + 1)
    for actor in (*range(len(ACTORS)), SUPERVISOR):
        assert control.process(actor) == (1000 + actor, 2, 3, ActorState.READY)
        assert control.word("heartbeat", HEARTBEAT_SIZE * actor).load() == actor + 1


def test_queues_share_arrival_words() -> None:
    control = new_control()
    OwnedWord(control.memory, CONTROL["arrival"][0] + 8 * 5).store(3)
    for slot in (5, 5 + ARRIVAL_WORDS, 5 + 7 * ARRIVAL_WORDS):
        assert control.arrival(slot).load() == 3
    assert control.arrival(6).load() == 0
    assert CONTROL["arrival"][0] + 8 * ARRIVAL_WORDS == SIZE
