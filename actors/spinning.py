"""`Spinning`: how long a process spins before it sleeps, as the pauses before this one suggest."""

from __future__ import annotations

from typing import Final

#: After so many pauses in a row that were longer than the spin, spinning is a waste.
_IN_VAIN: Final = 3


class Spinning:
    """Spins `longest_ns` while work comes within that time, and not at all while it does not.

    A process that sleeps at once learns by its sleep as well: one short pause ends that.
    """

    def __init__(self, longest_ns: int) -> None:
        self._longest_ns = longest_ns
        self._in_vain = 0

    @property
    def spin_ns(self) -> int:
        """So long to spin now."""
        return self._longest_ns if self._in_vain < _IN_VAIN else 0

    def paused(self, pause_ns: int) -> None:
        """Notes a pause: how long there was no work, spinning and sleeping together."""
        self._in_vain = 0 if pause_ns <= self._longest_ns else self._in_vain + 1
