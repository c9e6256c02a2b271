"""Numbers in text that came from outside: an environment, a name of a file, a property."""

from __future__ import annotations


def number(text: str, most: int) -> int | None:
    """The number that these ASCII digits are, None if it is above `most` or the text is another.

    `int` would take digits of any script, and raises ValueError for some texts that are digits by
    `str.isdigit`, and for those with more than 4,300.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)):
        return None
    found = int(digits)
    return found if found <= most else None
