"""Reads layout tables out of docstrings.

A table stands in the docstring of the module that owns the format:

    Layout NAME:

    ======  ====  ====  ==========  =======
    offset  size  type  field       meaning
    ======  ====  ====  ==========  =======
    0       8     u64   magic       ...
    ======  ====  ====  ==========  =======

The module repeats the layouts in code: `LAYOUTS = {NAME: {field: (offset, size)}}`. If its only
table has no line with a name, it has `LAYOUT = {field: (offset, size)}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

COLUMNS = ["offset", "size", "type", "field", "meaning"]
_BORDER = re.compile(r"=+(  +=+){4}")
_NAME = re.compile(r"Layout (\w+):")
_TYPE_SIZES = {
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "u16": 2,
    "i32": 4,
    "u32": 4,
    "i64": 8,
    "u64": 8,
    "host": 8,
}


class BadTable(ValueError):
    """A table that does not have the form that this module's docstring describes."""


@dataclass(frozen=True)
class Row:
    """One line of a table: `field` occupies `size` bytes from `offset` on."""

    offset: int
    size: int
    type: str
    field: str
    meaning: str


def tables(docstring: str) -> dict[str, list[Row]]:
    """All tables of a docstring by name. A table without a `Layout` line has the name "". Raises
    BadTable.
    """
    lines = docstring.splitlines()
    found: dict[str, list[Row]] = {}
    name = ""
    at = 0
    while at < len(lines):
        if match := _NAME.fullmatch(lines[at].strip()):
            name = match[1]
        if _BORDER.fullmatch(lines[at].strip()):
            if name in found:
                raise BadTable(f"two tables are called {name!r}: write `Layout NAME:` before each")
            at, found[name] = _table(lines, at)
            name = ""
        at += 1
    return found


def in_code(module: Any) -> dict[str, dict[str, tuple[int, int]]]:
    """The layouts that a module defines, by name."""
    if hasattr(module, "LAYOUTS"):
        return dict(module.LAYOUTS)
    return {"": dict(module.LAYOUT)} if hasattr(module, "LAYOUT") else {}


def problems(rows: list[Row]) -> list[str]:
    """The errors within a table: overlaps, wrong order, sizes that do not fit the types."""
    found = []
    end = 0
    for row in rows:
        if row.offset < end:
            found.append(
                f"{row.field} at {row.offset} begins before {end}, where the last one ends"
            )
        unit = _TYPE_SIZES.get(row.type, 1)
        if row.size < unit or row.size % unit:
            found.append(f"{row.field} has {row.size} bytes, and its type {row.type} {unit}")
        end = row.offset + row.size
    if len({row.field for row in rows}) != len(rows):
        found.append("a field stands in it twice")
    return found


def _table(lines: list[str], at: int) -> tuple[int, list[Row]]:
    """The table whose first border is line `at`, and the number of its last border."""
    starts = [match.start() for match in re.finditer("=+", lines[at])]
    ends = [*starts[1:], None]

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    if len(lines) < at + 3 or cells(lines[at + 1]) != COLUMNS or lines[at + 2] != lines[at]:
        raise BadTable(f"line {at + 1} of the docstring: the head of a table must be {COLUMNS}")
    rows: list[Row] = []
    for number in range(at + 3, len(lines)):
        if lines[number] == lines[at]:
            return number, rows
        offset, size, kind, field, meaning = cells(lines[number])
        if not (offset.isdecimal() and size.isdecimal() and kind and field):
            raise BadTable(f"line {number + 1} of the docstring is no row: {lines[number]!r}")
        rows.append(Row(int(offset), int(size), kind, field, meaning))
    raise BadTable(f"line {at + 1} of the docstring: the table has no last border")
