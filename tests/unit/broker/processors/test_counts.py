"""Counts: Python's and those of compiled paths together, and no code of a peer's choice."""

from __future__ import annotations

from silomq.broker.processors.counts import Counts
from silomq.broker.wire.codes import ResponseCode


class Fast:
    def counted(self) -> tuple[dict[int, int], int, int]:
        return {10: 5, 310: 0}, 7, 3


def test_compiled_paths_count_too() -> None:
    counts = Counts()
    counts.request(10)
    counts.request(11)
    counts.pulled += 4
    assert counts.totals() == ({10: 1, 11: 1}, 0, 4)
    counts.fast += [Fast(), Fast()]
    assert counts.totals() == ({10: 11, 11: 1}, 14, 10)
    assert counts.totals() == ({10: 11, 11: 1}, 14, 10), "asking changes nothing"


def test_refusals_have_codes_of_ours() -> None:
    counts = Counts()
    for answer in (13, 13, 12345, -1):
        counts.refuse(10, answer)
    assert counts.refused == {
        (10, ResponseCode.MESSAGE_ILLEGAL): 2,
        (10, ResponseCode.SYSTEM_ERROR): 2,
    }
