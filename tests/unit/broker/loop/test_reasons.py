"""Reasons for which connections were closed: all are counted, and few are kept."""

from __future__ import annotations

from typing import Any

from silomq.broker.loop.reasons import Reasons
from silomq.conf.logging import KIND


class Logger:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, _: str, **fields: Any) -> None:
        self.lines.append(fields)


def test_many_reasons() -> None:
    logger = Logger()
    reasons = Reasons(logger)
    for number in range(100):
        reasons.add("reason " + "x" * number, "h:1")
        reasons.add("reason ", "h:1")
    assert len(reasons.total) <= 21
    assert reasons.total["reason "] == 101
    assert reasons.total["other reasons"] >= 79
    assert sum(reasons.total.values()) == 200
    first = {"why": "reason ", "count": 1, "last_peer": "h:1", KIND: "reason "}
    assert logger.lines[0] == first
    assert len(logger.lines) < 30


def test_numbers_that_a_peer_chooses_make_no_reasons() -> None:
    logger = Logger()
    reasons = Reasons(logger)
    for number in range(100):
        reasons.add(f"a frame of {number} bytes", "h:1")
    assert reasons.total == {"a frame of N bytes": 100}
    assert logger.lines[0]["why"] == "a frame of 0 bytes"
