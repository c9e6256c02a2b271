"""Where a running store's queue begins for a reader who names a time."""

from __future__ import annotations

import sys
from functools import partial

from ...store.consumequeue import time_lookup
from ...store.errors import Corrupt, CorruptRange
from .cursor import Cursor


def first_since(cursor: Cursor, time_ms: int) -> int:
    """The queue offset of the first message of the cursor's queue that was stored at `time_ms`
    (epoch ms) or later; the queue's end without one. Moves the cursor.

    A message that cannot be read counts as stored when the next readable one was: who begins at the
    offset found is told of it there. Raises TopicDeleted.
    """
    missed = cursor.missed
    low, high = cursor.start.load(), cursor.end.load()
    found = time_lookup.first_since(partial(_stored_ms, cursor), low, high, time_ms)
    cursor.missed = missed
    return found


def _stored_ms(cursor: Cursor, queue_offset: int) -> int:
    cursor.next = queue_offset
    while True:
        try:
            found = cursor.read(1)
        except CorruptRange as hole:
            cursor.pass_hole(hole)
        except Corrupt:
            cursor.next += 1
        else:
            return found[0].store_timestamp if found else sys.maxsize
