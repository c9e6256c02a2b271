"""What a server must do to be measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path


class Durability(IntEnum):
    """What is sure when a send is acknowledged. Figures are only compared at the same level."""

    NOTHING = 0  # the message may still be in the client
    PROCESS_MEMORY = 1  # the server has it: lost if the server's process is killed
    SYSTEM_MEMORY = 2  # survives a kill of the server, lost in a power cut
    DISK = 3  # survives a power cut


class NotOffered(ValueError):
    """A workload asks for what this target does not have: the setting, and what is possible."""


@dataclass(frozen=True)
class Facts:
    """What a reader must know of a target. `acknowledged` says in one sentence what an
    acknowledgement means.
    """

    title: str
    version: str
    acknowledged: str
    durability: Durability
    #: Calls that its workers know.
    send_calls: frozenset[str]
    read_calls: frozenset[str]


@dataclass(frozen=True)
class Wanted:
    """What a workload asks of a server. `settings` are the target's own, as text."""

    topics: list[str]
    queues: int
    #: "async" or "sync": whether an acknowledgement waits for the disk.
    flush: str = "async"
    #: RocketMQ's transientStorePool.
    pool: bool = False
    file_size: int = 1 << 30
    settings: dict[str, str] = field(default_factory=dict)


class Running(Protocol):
    """A server that runs."""

    @property
    def facts(self) -> Facts: ...

    @property
    def endpoint(self) -> dict[str, str]:
        """What a worker needs to connect."""
        ...

    def pids(self) -> dict[str, int]:
        """The processes to watch by name ("append", "broker"): asked again each second, since a
        killed one is replaced.
        """
        ...

    def worker(self) -> list[str]:
        """The command of a program that keeps the protocol of `bench/harness/load/protocol.py`."""
        ...

    def positions(self) -> dict[str, int]:
        """What the server tells of its log, as addresses there: "wrote", and how far it is
        "flushed" and "dispatched". "dispatch_count" is a number of messages. Nothing if it tells
        none at no cost.
        """
        ...

    def restart(self, between: Callable[[], None]) -> bool:
        """Stops the server, calls `between`, and starts it with the same files. Returns False, and
        does nothing, if it cannot. Raises ServerFailed.
        """
        ...


class Target(Protocol):
    """A kind of server. It is started anew for each run, in a folder that the harness removes."""

    name: str

    def missing(self) -> str:
        """Nothing ("") if it can be started here; else one sentence that says what is missing and
        which command installs it.
        """
        ...

    def start(self, folder: Path, wanted: Wanted) -> AbstractContextManager[Running]:
        """Starts it. Raises NotOffered, ServerFailed."""
        ...
