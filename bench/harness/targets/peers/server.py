"""`Server`: what the peers' `Running` have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target import Facts


@dataclass(frozen=True)
class Server:
    """A server that runs: see `targets.target.Running`."""

    facts: Facts
    endpoint: dict[str, str]
    #: The command of its worker.
    command: list[str]
    processes: dict[str, int] = field(default_factory=dict)

    def pids(self) -> dict[str, int]:
        """The same for its whole life: a peer's process is not replaced."""
        return self.processes

    def worker(self) -> list[str]:
        return self.command

    def positions(self) -> dict[str, int]:
        """The peers tell none in a way that costs them nothing."""
        return {}

    def restart(self, between: Callable[[], None]) -> bool:
        """The harness does not know how each peer is stopped without a loss."""
        return False
