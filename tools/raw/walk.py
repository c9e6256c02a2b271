"""Walks over the whole commit log, damage included: records, end-of-file records, bad bytes, the
tail.

After bad bytes the walk continues at the next valid place: a record that names its own address, or
an end-of-file record that fills its file. Only the records found are copied.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

import msgspec

from ...store.commitlog._scan import used_begin
from ...store.errors import Corrupt
from ...store.record.format import BLANK_BYTES, Record, decode_record, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .files import StoreFiles

_MAGICS = re.compile(rb"\xDA\xA3\x20[\xA7\xAB]|\xCB\xD4\x31\x94", re.DOTALL)
_BLOCK = 1 << 20


class Kind(enum.Enum):
    """What is at a place of the log."""

    RECORD = "record"
    BLANK = "blank"
    DAMAGE = "damage"
    #: Bytes behind the last record of the file that was written last.
    TAIL = "tail"


class Found(msgspec.Struct, frozen=True):
    """Bytes [offset, offset + size) of the log. `why` says what is wrong with them, if anything; a
    record may be wrong too. For a tail it describes the bytes at the log's end.
    """

    kind: Kind
    offset: int
    size: int
    record: Record | None = None
    why: str = ""


def walk_file(files: StoreFiles, base: int, start: int | None = None) -> Iterator[Found]:
    """Yields everything in the file at log address `base`, from address `start` (default: its
    beginning) on. Bytes behind the file's last record that are no end-of-file record are a TAIL, in
    any file.
    """
    view = files.log_view(base)
    at = 0 if start is None else start - base
    if at and not _begins(view, at, base):
        following = _resync(view, at, base)
        at = len(view) if following is None else following
    while at < len(view):
        found = found_at(view, at, base)
        yield found
        at = found.offset + found.size - base


def found_at(view: memoryview, at: int, base: int) -> Found:
    """What is at position `at` of the file at log address `base`: a record or an end-of-file
    record, otherwise all bytes up to the next one (DAMAGE), or up to the file's end (TAIL).
    """
    found = _at(view, at, base)
    if found is None and used_begin(view, at) == len(view):
        found = Found(Kind.TAIL, base + at, len(view) - at)
    if found is None:
        following = _resync(view, at + 1, base)
        end = len(view) if following is None else following
        kind = Kind.TAIL if following is None else Kind.DAMAGE
        found = Found(kind, base + at, end - at, why=_describe(view, at, base))
    return found


def _at(view: memoryview, at: int, base: int) -> Found | None:
    left = len(view) - at
    if left < BLANK_BYTES:
        return None
    if is_blank(view, at, left):
        return Found(Kind.BLANK, base + at, left)
    why = ""
    try:
        record = decode_record(view, at, base=base)
    except Corrupt as error:
        why = error.why
        try:
            record = decode_record(view, at, base=base, check_crc=False)
        except Corrupt:
            return None
    if record.physical_offset != base + at:
        why = f"the record names offset {record.physical_offset}"
    return Found(Kind.RECORD, base + at, record.total_size, record, why)


def _describe(view: memoryview, at: int, base: int) -> str:
    """Why nothing valid begins at a place, in a sentence."""
    try:
        decode_record(view, at, base=base)
    except Corrupt as error:
        return error.why
    return "neither a record nor an end-of-file record"


def _begins(view: memoryview, at: int, base: int) -> bool:
    """Whether something begins at a place that itself says that it belongs there."""
    found = _at(view, at, base)
    if found is None:
        return False
    return found.record is None or found.record.physical_offset == found.offset


def _resync(view: memoryview, at: int, base: int) -> int | None:
    """The next place from `at` on where something valid begins; None if there is none."""
    for start, end in _written(view, at):
        # The magic is four bytes behind a record's beginning, and may lie across two blocks.
        for match in _MAGICS.finditer(view, max(at, start - 3), end + 3):
            place = match.start() - 4
            if place >= at and _begins(view, place, base):
                return place
    return None


def _written(view: memoryview, at: int) -> Iterator[tuple[int, int]]:
    """The blocks from position `at` on without the zeros before them, so that unwritten parts are
    skipped fast.
    """
    while (start := used_begin(view, at)) < len(view):
        at = min(start + _BLOCK, len(view))
        yield start, at


def walk_log(files: StoreFiles, start: int = 0) -> Iterator[Found]:
    """Yields everything in all files from address `start` on.

    Leaves out the zeros of files after the last file with records. A TAIL comes only in the last
    file that holds records; elsewhere it is DAMAGE.
    """
    bases = [file.base for file in files.log if file.base + files.log_size > start]
    last = next((b for b in reversed(bases) if holds_records(files, b)), None)
    for base in bases:
        for found in walk_file(files, base, start if start > base else None):
            if found.kind is Kind.TAIL and last is not None and base < last:
                why = found.why or "zeros where a record or the end of the file should be"
                yield Found(Kind.DAMAGE, found.offset, found.size, why=why)
            elif found.kind is not Kind.TAIL or last in {None, base} or found.why:
                yield found


def holds_records(files: StoreFiles, base: int) -> bool:
    """Whether anything valid is in the file at `base`."""
    view = files.log_view(base)
    return _begins(view, 0, base) or _resync(view, 1, base) is not None
