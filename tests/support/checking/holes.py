"""What readers are told of declared holes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq import CorruptRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from silomq import MessageView


def drained(poll: Callable[[], list[MessageView]]) -> tuple[list[MessageView], list[CorruptRange]]:
    """All messages, and all holes that were raised meanwhile."""
    found: list[MessageView] = []
    raised: list[CorruptRange] = []
    while True:
        try:
            messages = poll()
        except CorruptRange as error:
            raised.append(error)
            continue
        if not messages:
            return found, raised
        found += messages
