"""The list of checks: each function that is marked with `point` is one, and needs two servers.

The numbers are those of the project's list of 62 observable behaviours of RocketMQ's network side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.servers import Servers

    Run: TypeAlias = Callable[[Servers], None]


@dataclass(frozen=True)
class Check:
    """One check on the wire."""

    points: tuple[int, ...]
    run: Run
    #: It takes minutes, because it waits for a timeout of the server's.
    is_slow: bool
    #: It runs behind the others, because it needs a server that has been up for a minute.
    is_late: bool

    @property
    def name(self) -> str:
        numbers = "+".join(map(str, self.points))
        return f"{numbers}-{self.run.__name__}"


CHECKS: list[Check] = []


def point(*numbers: int, slow: bool = False, late: bool = False) -> Callable[[Run], Run]:
    """Makes a function the check of these points."""

    def add(run: Run) -> Run:
        CHECKS.append(Check(numbers, run, slow, late))
        return run

    return add
