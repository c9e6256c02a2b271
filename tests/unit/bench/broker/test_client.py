"""What the Java client prints."""

from __future__ import annotations

import pytest

from silomq.bench.broker.client import parse_line


def test_figures_are_numbers() -> None:
    line = b'{"kind":"end","messages":20,"seconds":0.500000}\n'
    assert parse_line(line) == {"messages": 20.0, "seconds": 0.5}


def test_the_begin_has_no_figures() -> None:
    assert parse_line(b'{"kind":"begin"}\n') is None


def test_other_lines_are_errors() -> None:
    with pytest.raises(ValueError, match="of the kind 'other'"):
        parse_line(b'{"kind":"other"}\n')
    with pytest.raises(ValueError, match="Extra data"):
        parse_line(b"12:00 INFO begun\n")
