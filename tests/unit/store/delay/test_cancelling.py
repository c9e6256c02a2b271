"""Which messages a record of the timer topic cancels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.store.delay.cancelling import Cancel, cancel_of, find_cancelled
from silomq.store.delay.timers import Timers, key_checksum
from silomq.store.disk.files import Folder
from silomq.store.record.format import Record, decode_record, encode_record
from silomq.store.record.properties import encode_properties

if TYPE_CHECKING:
    from pathlib import Path

WAITING = {"UNIQ_KEY": "K1", "REAL_TOPIC": "t", "REAL_QID": "0", "TIMER_OUT_MS": "5000"}
KEY = key_checksum("K1")


def waiting_bytes(**properties: str) -> bytes:
    written = encode_properties({**WAITING, **properties})
    return encode_record(b"rmq_sys_wheel_timer", b"0", written)


def cancelled(timers: Timers, cancel: Cancel, data: bytes) -> list[int]:
    """The queue offsets of what is cancelled, if each waiting record consists of `data`."""
    record = decode_record(data)
    found = find_cancelled(timers, [cancel], lambda *_: record)
    return sorted(waiting.queue_offset for waiting in found)


@pytest.mark.parametrize(
    ("properties", "cancel"),
    [
        ({}, None),
        ({"TIMER_DEL_UNIQKEY": "t+K2"}, Cancel("t", "K2", 5000, 7)),
        ({"TIMER_DEL_UNIQKEY": "other+K2"}, Cancel("other", "K2", 5000, 7)),
        ({"TIMER_DEL_UNIQKEY": "K2"}, Cancel("t", "K2", 5000, 7)),
        ({"TIMER_ROLL_TIMES": "1"}, Cancel("t", "K1", 5000, 7)),
        ({"TIMER_DEL_UNIQKEY": "t+K2", "TIMER_OUT_MS": "x"}, None),
        ({"TIMER_DEL_UNIQKEY": "t+K2", "TIMER_OUT_MS": "9" * 30}, None),
    ],
)
def test_what_a_record_cancels(properties: dict[str, str], cancel: Cancel | None) -> None:
    assert cancel_of(decode_record(waiting_bytes(**properties)), 7) == cancel


def test_a_cancel_reaches_only_messages_before_it(tmp_path: Path) -> None:
    """So RocketMQ's copy of a message takes the place of the earlier one, and does not cancel
    itself.
    """
    copy = waiting_bytes(TIMER_ROLL_TIMES="1")
    found = cancel_of(decode_record(copy), 2)
    assert found is not None
    with Folder.open(tmp_path) as ours:
        timers = Timers(ours)
        timers.enter([(5000, at, 100 * at, len(copy), KEY) for at in (1, 2, 3)], 0)
        assert cancelled(timers, found, copy) == [1]
        timers.folder.close()


@pytest.mark.parametrize("due", [5000, 59_500, 60_000, 119_999])
def test_a_cancel_finds_what_was_entered_late(tmp_path: Path, due: int) -> None:
    """In whichever minute that was: the cancel is read later, or by a successor, or after the clock
    was set back.
    """
    out_ms = due // 1000 * 1000
    data = waiting_bytes(TIMER_OUT_MS=str(out_ms))
    cancel = Cancel("t", "K1", out_ms, 7)
    with Folder.open(tmp_path) as ours:
        timers = Timers(ours)
        for at, entered_ms in enumerate((0, 60_000, 119_999, 120_000, 240_000)):
            timers.enter([(due, at, 100 + at, len(data), KEY)], entered_ms)
        assert cancelled(timers, cancel, data) == [0, 1, 2, 3, 4]
        successor = Timers(ours)
        successor.take_over(7, 0)
        assert cancelled(successor, cancel, data) == [0, 1, 2, 3, 4]
        timers.folder.close()
        successor.folder.close()


def test_a_cancel_among_many_costs_no_heartbeat(tmp_path: Path) -> None:
    """There is a beat for each record that is read: it may have to come from a slow disk."""
    data = waiting_bytes()
    beats: list[int] = []
    with Folder.open(tmp_path) as ours:
        timers = Timers(ours, lambda: beats.append(1))
        timers.enter([(5000, at, 100 + at, len(data), KEY) for at in range(3000)], 0)
        assert cancelled(timers, Cancel("t", "K1", 5000, 2999), data) == list(range(2999))
        timers.folder.close()
    assert len(beats) > 3000


def test_a_cancel_reads_only_what_may_have_its_key(tmp_path: Path) -> None:
    """Not all that are due in the same second. An entry of an earlier version has no checksum."""
    read: list[int] = []

    def decode(offset: int, _size: int) -> Record:
        read.append(offset)
        return decode_record(waiting_bytes())

    keys = {at: key_checksum(f"other {at}") for at in range(3000)} | {70: KEY, 80: 0, 2990: KEY}
    with Folder.open(tmp_path) as ours:
        timers = Timers(ours)
        timers.enter([(5000, at, 100 + at, 300, key) for at, key in keys.items()], 0)
        found = find_cancelled(timers, [Cancel("t", "K1", 5000, 3000)], decode)
        timers.folder.close()
    assert read == [170, 180, 3090]
    assert [waiting.queue_offset for waiting in found] == [70, 80, 2990]


def test_cancels_of_one_minute_read_its_file_once(tmp_path: Path) -> None:
    """And each finds the messages of its own second."""
    beats: list[int] = []
    with Folder.open(tmp_path) as ours:
        timers = Timers(ours, lambda: beats.append(1))
        seconds = [1000 * second for second in range(60)]
        dues = sorted(out + late for out in seconds for late in (0, 999))
        timers.enter([(due, at, due, 300, KEY) for at, due in enumerate(dues)], 0)
        cancels = [Cancel("t", "K1", out, 200) for out in seconds if out != 7000]
        found = find_cancelled(
            timers,
            cancels,
            lambda at, _: decode_record(waiting_bytes(TIMER_OUT_MS=str(at // 1000 * 1000))),
        )
        timers.folder.close()
    assert {waiting.due_ms for waiting in found} == set(dues) - {7000, 7999}
    assert len(beats) == len(dues) + 1
