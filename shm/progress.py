"""Reput's progress: how far dispatch has come, as the control block holds it in two slots.

Layout progress:

======  ====  ====  ==============  =======
offset  size  type  field           meaning
======  ====  ====  ==============  =======
0       8     u64   dispatched      all below is in queues and index
8       8     u64   dispatch_count  queue entries written so far
16      8     u64   index_name      the index file in use, its 17 digits as a number; 0 = none yet
24      8     u64   index_count     its next entry number
32      8     u64   index_slots     its used slots
40      8     u64   begin_time      its first store timestamp, ms
48      8     u64   end_time        its last store timestamp, ms
56      8     u64   begin_offset    its first physical offset
64      8     u64   end_offset      its last physical offset
======  ====  ====  ==============  =======
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRESS: dict[str, tuple[int, int]] = {
    name: (8 * i, 8)
    for i, name in enumerate((
        "dispatched", "dispatch_count", "index_name", "index_count", "index_slots", "begin_time",
        "end_time", "begin_offset", "end_offset",
    ))
}  # fmt: skip
LAYOUTS = {"progress": PROGRESS}


class IndexProgress(msgspec.Struct, frozen=True):
    """The fields of the layout `progress` about the index file in use; zeros without one.

    `name` is the file's name as a number, `count` the number of its next entry, `slots` how many
    of its slots are used. Times are epoch ms, offsets those of the commit log.
    """

    name: int = 0
    count: int = 0
    slots: int = 0
    begin_time: int = 0
    end_time: int = 0
    begin_offset: int = 0
    end_offset: int = 0


class Progress(msgspec.Struct, frozen=True):
    """The layout `progress`: how far dispatch has come. Consume queues and index hold all records
    below the log offset `dispatched`, and the queues hold `dispatch_count` entries.
    """

    dispatched: int = 0
    dispatch_count: int = 0
    index: IndexProgress = IndexProgress()

    @classmethod
    def of(cls, words: Iterable[int]) -> Progress:
        """From the words of the layout, in its order."""
        dispatched, dispatch_count, *index = words
        return cls(dispatched, dispatch_count, IndexProgress(*index))

    def fields(self) -> dict[str, int]:
        """The words by the layout's names, in its order."""
        index = self.index
        words = (
            self.dispatched,
            self.dispatch_count,
            index.name,
            index.count,
            index.slots,
            index.begin_time,
            index.end_time,
            index.begin_offset,
            index.end_offset,
        )
        return dict(zip(PROGRESS, words, strict=True))
