"""What `poll_arrow` is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...store.errors import IllegalArgument
from ...store.reading._columns import Columns
from ...store.reading.columns import COLUMNS, BodyForm, ColumnName, new_columns
from .. import arguments


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """The columns of a batch, and where it ends: at `rows` rows, or at records of `size` bytes."""

    names: tuple[ColumnName, ...]
    rows: int
    size: int
    form: BodyForm

    @classmethod
    def of(
        cls,
        columns: Iterable[ColumnName],
        max_messages: int,
        max_bytes: int,
        *,
        raw_bodies: bool,
        body_views: bool,
    ) -> WantedColumns:
        """Checks the arguments of `poll_arrow`. Raises IllegalArgument, IllegalType."""
        rows = arguments.whole("max_messages", max_messages, 1)
        size = arguments.whole("max_bytes", max_bytes, 1)
        raw = arguments.switch("raw_bodies", raw_bodies)
        views = arguments.switch("body_views", body_views)
        form = (BodyForm.RAW if raw else BodyForm(0)) | (BodyForm.VIEWS if views else BodyForm(0))
        return cls(_names(columns), rows, size, form)

    def empty(self, *more: str) -> Columns:
        """Columns to be filled; those in `more` too."""
        return new_columns({*self.names, *more}, self.form)


def _names(columns: Iterable[ColumnName]) -> tuple[ColumnName, ...]:
    """Names of columns of Arrow, none of them twice. Raises IllegalArgument, IllegalType."""
    names = arguments.several("columns", columns, len(COLUMNS))
    for name in names:
        if arguments.text("column", name) not in COLUMNS:
            shown = arguments.shown(name)
            raise IllegalArgument(f"no column {shown}; there are: {', '.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise IllegalArgument("columns: one of them is named twice")
    return tuple(names)
