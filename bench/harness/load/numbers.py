"""Numbers in bodies, by which lost and doubled messages are found.

Behind its stamp a body has 8 bytes: the producer's index (the upper 16 bits) and the message's
number, big-endian. Producers write down the numbers that were acknowledged, consumers those that
they have read.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING

from .protocol import STAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .protocol import Order

WIDTH = 8
_BEHIND = STAMP + WIDTH
_INDEX_SHIFT = 48


class Numbers:
    """The numbers of one worker, and its file of them."""

    def __init__(self, order: Order) -> None:
        self._path = Path(order.check, f"{order.role}-{order.group}-{order.index}")
        self._next = order.index << _INDEX_SHIFT
        self._found = array("Q")

    def numbered(self, body: bytes) -> tuple[bytes, int]:
        """The body with the next number in it, and that number."""
        number = self._next
        self._next += 1
        return body[:STAMP] + number.to_bytes(WIDTH, "big") + body[_BEHIND:], number

    def note(self, number: int) -> None:
        """This message was acknowledged."""
        self._found.append(number)

    def read(self, body: bytes | memoryview) -> None:
        """This message was read."""
        self._found.append(int.from_bytes(body[STAMP:_BEHIND], "big"))

    def write(self) -> None:
        """Writes the file."""
        with self._path.open("wb") as file:
            self._found.tofile(file)


def lost_and_doubled(sent: Iterable[Path], read: Iterable[Path]) -> tuple[int, int]:
    """How many messages were acknowledged and never read by a group, and how many it read more than
    once. `read` are the files of all members of the group.
    """
    import numpy as np

    def load(paths: Iterable[Path]) -> object:
        parts = [np.fromfile(path, np.uint64) for path in paths]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint64)

    wanted = np.unique(load(sent))
    found, counts = np.unique(load(read), return_counts=True)
    lost = int(np.setdiff1d(wanted, found, assume_unique=True).size)
    return lost, int((counts - 1).sum())
