"""Rows of an exporter: bounded, and each name keeps its own."""

from __future__ import annotations

from silomq.monitor.rows import OTHER, Rows


def test_all_names_have_rows_while_there_are_enough() -> None:
    assert Rows(3).split({"a": 1.0, "b": 2.0}) == ({"a": 1.0, "b": 2.0}, 0)


def test_the_largest_get_the_rows_and_the_others_are_summed() -> None:
    values = {f"t{n}": float(n) for n in range(10)}
    rows, summed = Rows(3).split(values)
    assert rows == {"t9": 9.0, "t8": 8.0, "t7": 7.0, OTHER: float(sum(range(7)))}
    assert summed == 7
    assert Rows(0).split(values) == ({OTHER: 45.0}, 10)


def test_a_name_keeps_its_row_until_it_is_gone() -> None:
    rows = Rows(2)
    assert set(rows.split({"a": 1.0, "b": 2.0})[0]) == {"a", "b"}
    assert rows.split({"a": 1.0, "b": 2.0, "c": 99.0}) == ({"a": 1.0, "b": 2.0, OTHER: 99.0}, 1)
    assert rows.split({"b": 2.0, "c": 99.0}) == ({"b": 2.0, "c": 99.0}, 0)
