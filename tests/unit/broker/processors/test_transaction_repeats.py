"""Decisions that a broker need not store once more: remembered for a time, and never too many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from silomq.broker.processors.transaction_repeats import KEPT_S, MOST, Repeats

if TYPE_CHECKING:
    import pytest


def store(repeats: Repeats, offset: int, *, stored: bool = True) -> None:
    repeats.begin(offset)
    assert repeats.is_begun(offset)
    repeats.end(offset, stored=stored)
    assert not repeats.is_begun(offset)


def test_only_what_was_stored_is_remembered() -> None:
    repeats = Repeats()
    store(repeats, 1)
    store(repeats, 2, stored=False)
    assert [repeats.is_stored(offset) for offset in (1, 2, 3)] == [True, False, False]
    repeats.clear()
    assert not repeats.is_stored(1)


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    repeats = Repeats()
    for offset in range(MOST + 3):
        store(repeats, offset)
    assert [repeats.is_stored(offset) for offset in (2, 3, MOST + 2)] == [False, True, True]
    now[0] += KEPT_S
    assert not repeats.is_stored(MOST + 2)
