"""Finds declared holes in which messages stand again, because a file was restored from a copy.

Readers go on to get CorruptRange there until the hole is dropped. What stands in a hole tells:
stand-ins and fillers (`hole_filling.py`) and bytes that are no record are lost, any other whole
record is a message. An end-of-file record belongs to what stands before it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...store.commitlog import _scan as kernel
from ...store.commitlog.holes import Hole, Holes
from ...store.errors import Corrupt
from ...store.record.format import BLANK_BYTES, decode_record, is_blank
from .hole_filling import stands_in
from .log_damage import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...store.commitlog.log import CommitLog


def still_lost(log: CommitLog, holes: Holes) -> Holes:
    """The declared holes without the ranges in which messages stand. Raises OSError."""
    return Holes(
        replace(hole, start=start, end=end)
        for hole in holes
        for start, end in _lost_ranges(log, hole)
    )


def _lost_ranges(log: CommitLog, hole: Hole) -> Iterator[tuple[int, int]]:
    """The log offsets [start, end) of a hole in which no messages stand, ascending."""
    begin, lost = hole.start, True  # the range so far
    for start, end, is_message in _pieces(log, hole):
        if is_message and lost and start > begin:
            yield begin, start
        if is_message:
            begin, lost = end, False
        elif not lost:
            begin, lost = start, True
    if lost:
        yield begin, hole.end


def _pieces(log: CommitLog, hole: Hole) -> Iterator[tuple[int, int, bool]]:
    """What stands in a hole, ascending: (start, end, whether it is a message)."""
    at = hole.start
    while at < hole.end:
        base = log.base_of(at)
        stop = min(base + log.file_size, hole.end)
        with contextlib.ExitStack() as opened:
            view = view_of(log, base, opened)
            while at < stop:
                left = len(view) - (at - base)
                if left >= BLANK_BYTES and is_blank(view, at - base, left):
                    at = stop
                    break
                end, is_message = _piece(view, at, base) if left > 0 else (stop, False)
                yield at, min(end, stop), is_message and end <= stop
                at = min(end, stop)


def _piece(view: memoryview, at: int, base: int) -> tuple[int, bool]:
    """The end of the record at log offset `at`, and whether it is a message. Of bytes that are no
    record: where the next one begins, or the file ends.
    """
    with contextlib.suppress(Corrupt):
        record = decode_record(view, at - base, base=base)
        if record.physical_offset == at:
            return at + record.total_size, not stands_in(record)
    found, _ = kernel.find_record(view, at - base + 1, base, 0)
    return base + (found if found >= 0 else len(view)), False
