"""Fills columns from several cursors, for `poll_arrow` of consumers and of group members."""

from __future__ import annotations

from collections.abc import Sequence

from ...store.errors import Corrupt, CorruptRange
from ...store.reading._columns import Columns
from ...store.reading.columns import MOST_BYTES
from .cursor import Cursor


def fill_from(
    cursors: Sequence[Cursor],
    columns: Columns,
    limit: int,
    codes: frozenset[int] | None = None,
    max_bytes: int = MOST_BYTES,
) -> None:
    """Fills `columns` from one cursor after the other, each up to its queue's end. Stops when they
    hold `limit` rows or records of `max_bytes` bytes. Raises Corrupt and CorruptRange only when no
    row comes before the damage.
    """
    max_bytes = min(max_bytes, MOST_BYTES)
    for cursor in cursors:
        while columns.rows < limit and columns.bytes < max_bytes:
            try:
                added = cursor.fill(columns, limit, codes, max_bytes)
            except (Corrupt, CorruptRange):
                if not columns.rows:
                    raise
                break
            if not added:
                break
