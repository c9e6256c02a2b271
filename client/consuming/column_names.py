"""The argument `columns` of `poll_arrow`."""

from __future__ import annotations

from collections.abc import Iterable

from ...store.errors import IllegalArgument
from ...store.reading.columns import COLUMNS, ColumnName
from .. import arguments


def column_names(columns: Iterable[ColumnName]) -> tuple[ColumnName, ...]:
    """Names of columns of Arrow, none of them twice. Raises IllegalArgument, IllegalType."""
    names = arguments.several("columns", columns, len(COLUMNS))
    for name in names:
        if arguments.text("column", name) not in COLUMNS:
            shown = arguments.shown(name)
            raise IllegalArgument(f"no column {shown}; there are: {', '.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise IllegalArgument("columns: one of them is named twice")
    return tuple(names)
