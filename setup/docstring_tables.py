"""Docstrings as Markdown: their tables have the form of reStructuredText's simple tables."""

from __future__ import annotations

import re
from typing import Final

_BORDER: Final = re.compile(r"=+(?:  +=+)+")
_LAYOUT: Final = re.compile(r"Layout (\w+):")


def as_markdown(docstring: str, heading: int) -> str:
    """The docstring with its tables in Markdown. A line `Layout NAME:` becomes a heading of the
    level `heading`.
    """
    lines = docstring.splitlines()
    parts: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        if _BORDER.fullmatch(line):
            end = _end(lines, at)
            parts += _table(lines[at : end + 1])
            at = end
        elif match := _LAYOUT.fullmatch(line):
            parts.append(f"{'#' * heading} Layout `{match[1]}`")
        else:
            parts.append(line)
        at += 1
    return "\n".join(parts)


def _end(lines: list[str], at: int) -> int:
    """The line of a table's last border: the third one."""
    borders = [n for n in range(at, len(lines)) if lines[n].rstrip() == lines[at].rstrip()]
    if len(borders) < 3:
        raise ValueError(f"a table has no last border: {lines[at + 1]!r}")
    return borders[2]


def _table(lines: list[str]) -> list[str]:
    starts = [match.start() for match in re.finditer("=+", lines[0])]
    spans = list(zip(starts, (*starts[1:], None), strict=True))
    rows: list[list[str]] = []
    for line in lines[1:-1]:
        if _BORDER.fullmatch(line.rstrip()):
            continue
        cells = [line[start:end].strip() for start, end in spans]
        if cells[0] or not rows:
            rows.append(cells)
        else:  # the row goes on
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    head, *body = [[_cell(cell) for cell in row] for row in rows]
    border = ["---"] * len(head)
    return [f"| {' | '.join(row)} |" for row in (head, border, *body)]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
