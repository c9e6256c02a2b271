"""Declared holes: ranges of the commit log whose messages are lost, in `holes.json`.

Only `silo repair --holes` makes the file, in the store's folder; RocketMQ ignores it. In the log
itself records stand in the holes (`tools/holes/hole_filling.py`), so that every scan passes them.
This file alone says that they are no messages. So every reader looks into it: it raises
CorruptRange where it comes to a hole. Offsets are of the commit log.

A hole must not outlive its bytes: it would hide the messages that are appended there later. A
repair that ends the log drops what lies behind the new end, after the bytes are gone. Each start
drops what lies behind the log's end, before anything is appended: such a repair may have been cut
short. A rebuild drops holes in which messages stand again, restored from a copy.

Fields of each hole in the list `holes`:

========  ====  =======
field     type  meaning
========  ====  =======
start     int   the first offset that is lost
end       int   the offset behind the last one that is lost
why       str   what was found there
declared  str   when the hole was declared, ISO 8601
kept      str   the folders in `recovery/` that have what was left of the bytes, with ", " between
========  ====  =======
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from ..consumequeue.queue import ENTRY, ENTRY_SIZE
from ..disk.files import Folder
from ..disk.paths import HOLES
from ..disk.replacing import replace_file
from ..errors import Corrupt, CorruptRange

_BACKUP: Final = f"{HOLES}.bak"


class Hole(msgspec.Struct, frozen=True):
    """Log offsets [start, end) that were declared lost."""

    start: int
    end: int
    why: str
    declared: str
    kept: str

    def error(
        self, topic: str | None = None, queue_id: int | None = None, *, first: int = 0, end: int = 0
    ) -> CorruptRange:
        """The exception for a reader that comes to this hole; of a queue it lacks the queue offsets
        [first, end).
        """
        if topic is None:
            return CorruptRange(self.start, self.end)
        return CorruptRange(self.start, self.end, topic, queue_id, (first, end))


class _File(msgspec.Struct):
    """The contents of `holes.json`."""

    holes: list[Hole]


class Holes:
    """All holes of a store, ascending and apart from each other. It is falsy without any."""

    def __init__(self, holes: Iterable[Hole] = ()) -> None:
        self._holes = tuple(holes)
        self._starts = [hole.start for hole in self._holes]

    def __len__(self) -> int:
        return len(self._holes)

    def __iter__(self) -> Iterator[Hole]:
        return iter(self._holes)

    @classmethod
    def read(cls, root: Folder) -> Self:
        """The holes of the store in the folder `root`. Raises Corrupt if the file and its backup
        are damaged: to read on would then hand out what stands in the holes.
        """
        problem = ""
        for name in (HOLES, _BACKUP):
            try:
                return cls(_checked(msgspec.json.decode(root.read(name), type=_File).holes))
            except FileNotFoundError:
                continue
            except (msgspec.DecodeError, ValueError) as error:
                problem = problem or str(error)
        if not problem:
            return cls()
        raise Corrupt(
            f"{root.path}/{HOLES}",
            0,
            f"it does not say which parts of the log are lost ({problem}), nor does its backup: "
            "restore it from a copy, or declare the lost ranges in it again",
        )

    def write(self, root: Folder) -> None:
        """Replaces the declaration, durably, and then its backup: an older one would lack holes, or
        hide what was appended since. Raises OSError.
        """
        text = msgspec.json.format(msgspec.json.encode(_File(list(self._holes))), indent=2)
        for name in (HOLES, _BACKUP):
            replace_file(root, name, text + b"\n")

    def adding(self, more: Iterable[Hole]) -> Holes:
        """These holes and more. Holes that touch or overlap become one."""
        found: list[Hole] = []
        for hole in sorted((*self._holes, *more), key=lambda hole: (hole.start, hole.end)):
            if found and hole.start <= found[-1].end:
                last = found.pop()
                why = last.why if hole.why in last.why else f"{last.why}; {hole.why}"
                end = max(last.end, hole.end)
                kept = ", ".join(
                    dict.fromkeys(
                        name for one in (last, hole) for name in one.kept.split(", ") if name
                    )
                )
                found.append(Hole(last.start, end, why, hole.declared, kept))
            else:
                found.append(hole)
        return Holes(found)

    def below(self, end: int) -> Holes:
        """These holes in a log that ends at offset `end`, which may lie within one of them."""
        return Holes(
            replace(hole, end=min(hole.end, end)) for hole in self._holes if hole.start < end
        )

    def at(self, offset: int) -> Hole | None:
        """The hole that holds a log offset, or None."""
        number = bisect_right(self._starts, offset) - 1
        if number < 0 or offset >= self._holes[number].end:
            return None
        return self._holes[number]

    def within(self, start: int, end: int) -> tuple[Hole, ...]:
        """The holes that overlap [start, end), ascending."""
        return tuple(hole for hole in self._holes if hole.start < end and hole.end > start)

    def first_of(self, place: Callable[[int], int], first: int, end: int) -> int:
        """The first of the queue offsets [first, end) whose message lies in a hole; `end` without
        one. `place` gives the log offset of a queue offset; log offsets must ascend.
        """
        if first >= end:
            return end
        least, most = place(first), place(end - 1)
        for hole in self.within(least, most + 1):
            found = _first_since(place, first, end, hole.start)
            if found < end and place(found) < hole.end:
                return found
        return end

    def before(self, entries: memoryview) -> tuple[int, Hole | None]:
        """How many of the queue entries lie before the first one that leads into a hole. If that is
        the first entry, also the hole.
        """
        number = len(entries) // ENTRY_SIZE
        found = self.first_of(partial(_place, entries), 0, number)
        return found, self.at(_place(entries, 0)) if found == 0 < number else None

    @staticmethod
    def behind(place: Callable[[int], int], hole: Hole, first: int, end: int) -> int:
        """The first of the queue offsets [first, end) whose message lies behind a hole; `end`
        without one.
        """
        return _first_since(place, first, end, hole.end)

    @staticmethod
    def passing(hole: Hole, entries: memoryview) -> int:
        """The number of the first queue entry that leads behind a hole; that of all without one."""
        return _first_since(partial(_place, entries), 0, len(entries) // ENTRY_SIZE, hole.end)


def _place(entries: memoryview, number: int) -> int:
    offset: int = ENTRY.unpack_from(entries, number * ENTRY_SIZE)[0]
    return offset


def _first_since(place: Callable[[int], int], low: int, high: int, offset: int) -> int:
    while low < high:
        middle = (low + high) // 2
        if place(middle) >= offset:
            high = middle
        else:
            low = middle + 1
    return low


def _checked(holes: list[Hole]) -> list[Hole]:
    """The holes of a file. Raises ValueError if they are no ascending ranges."""
    behind = -1
    for hole in holes:
        if not max(0, behind) <= hole.start < hole.end < 1 << 63:
            raise ValueError(f"the range {hole.start} to {hole.end} behind {behind}")
        behind = hole.end
    return holes
