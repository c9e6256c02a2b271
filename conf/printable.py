"""Decides which characters may go to a terminal or into a log line.

Names, properties, bodies and arguments come from anybody. A terminal obeys some characters in them:
ESC begins commands, and U+009B does so without ESC. Bidirectional controls (U+202E and others)
reorder a line. So only characters that Python calls printable are shown. Every other one is
escaped, except the line ends of our own layout. Nothing else in the package makes this decision:
the outputs of the `silo` command and the log call these functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def printable(data: str | bytes, keep: str = "") -> str:
    r"""Text of which a terminal obeys nothing. Other characters become Python escapes (`\x1b`,
    `\u202e`), and so do bytes that are not UTF-8. Characters in `keep` stay.

    Escaped text stays as it is when it is escaped again.
    """
    text = data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def printable_json(
    value: object,
    *,
    indent: int | None = None,
    skipkeys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    r"""`value` as JSON, in which all that is not printable is escaped as `\uXXXX`. On one line
    unless `indent` is given. The parameters are those of `json.dumps`.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, skipkeys=skipkeys, default=default)
    return escape_json(text)


def escape_json(text: str) -> str:
    r"""JSON text with all that is not printable escaped as `\uXXXX`."""
    if text.isprintable():
        return text
    # A line end here is one of the layout: within strings it is escaped already.
    return "".join(c if c.isprintable() or c == "\n" else _units(c) for c in text)


def _units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))
