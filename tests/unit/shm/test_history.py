"""The history: rows once a second, and what a reader gets while the writer goes on."""

from __future__ import annotations

import threading

import pytest

from silomq.shm import history
from silomq.shm.control import SIZE as CONTROL_SIZE
from silomq.shm.control import Control
from silomq.shm.history import ROWS, SEGMENT_SIZE, History, HistoryWriter
from silomq.shm.metrics import Metrics
from silomq.shm.ownership import STARTUP, NotTheWriter


class Store:
    """The memory that a supervisor has."""

    def __init__(self) -> None:
        self.memory = bytearray(SEGMENT_SIZE)
        control = bytearray(CONTROL_SIZE)
        self.start_up = Control(control, STARTUP)
        self.metrics = Metrics(self.memory, "append")
        self.writer = HistoryWriter(self.memory, Control(control, "supervisor"), self.metrics)
        self.reader = History(self.memory)


def test_a_row_has_the_words_of_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "EVERY_NS", 0)
    store = Store()
    put_time = store.metrics.own_histogram("put_time")
    for number in range(1, 4):
        store.start_up.own("wrote").store(100 * number)
        store.start_up.own("records").store(number)
        put_time.add(number / 1000)
        store.writer.tick()
    rows = store.reader.rows()
    plain = [(100 * n, n, n) for n in (1, 2, 3)]
    assert [(row.wrote, row.records, row.puts) for row in rows] == plain
    assert [row.put_sum_ns for row in rows] == [1_000_000, 3_000_000, 6_000_000]
    # The ends of their steps, or the longest of all.
    assert [row.put_p50_ns for row in rows] == [1_000_000, 2_000_000, 3_000_000]
    assert rows[0].clock_ns < rows[1].clock_ns < rows[2].clock_ns


def test_rows_are_a_second_apart() -> None:
    store = Store()
    for _ in range(50):
        store.writer.tick()
    assert len(store.reader.rows()) == 1


def test_the_oldest_rows_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "EVERY_NS", 0)
    store = Store()
    records = store.start_up.own("records")
    for number in range(ROWS + 50):
        records.store(number)
        store.writer.tick()
    rows = store.reader.rows()
    assert [row.records for row in rows] == list(range(51, ROWS + 50))
    assert [row.records for row in store.reader.rows(10)] == list(range(ROWS + 40, ROWS + 50))
    assert len(store.memory) == SEGMENT_SIZE


def test_a_reader_gets_whole_rows_while_the_writer_goes_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of a ring of four, in which four counters are the same number."""
    monkeypatch.setattr(history, "ROWS", 4)
    monkeypatch.setattr(history, "EVERY_NS", 0)
    store = Store()
    words = [store.start_up.own(name) for name in ("wrote", "flushed", "dispatched", "sessions")]
    stopping = threading.Event()

    def write() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            for word in words:
                word.store(number)
            store.writer.tick()

    writer = threading.Thread(target=write)
    writer.start()
    numbers: list[int] = []
    try:
        for _ in range(300):
            rows = store.reader.rows(3)
            assert all(r.wrote == r.flushed == r.dispatched == r.sessions for r in rows)
            numbers = [row.wrote for row in rows]
            assert numbers == sorted(set(numbers))
    finally:
        stopping.set()
        writer.join()


def test_only_the_supervisor_writes() -> None:
    control = Control(bytearray(CONTROL_SIZE), "clean")
    with pytest.raises(NotTheWriter, match="supervisor"):
        HistoryWriter(bytearray(SEGMENT_SIZE), control, Store().metrics)
