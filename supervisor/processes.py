"""The processes of a store: their classes, and the order in which they stop."""

from __future__ import annotations

from typing import Final

from ..actors.actor import Actor
from ..actors.allocate import Allocate
from ..actors.append import Append
from ..actors.clean import Clean
from ..actors.commit import Commit
from ..actors.flush import Flush
from ..actors.registry.registry import Registry
from ..actors.reput import Reput
from ..actors.schedule.schedule import Schedule
from ..actors.transactions.transactions import Transactions
from ..shm.control import ACTORS

CLASSES: Final[dict[str, type[Actor]]] = {
    actor.name: actor
    for actor in (
        *(Allocate, Append, Commit, Flush, Reput, Clean, Registry, Schedule),
        Transactions,
    )
}
#: First the sources of new work end: clients' requests, delayed messages, transactions. Then each
#: process ends after the one that gives it work. Clean and allocate serve the others, and end last.
STOP_ORDER: Final = (
    *("registry", "schedule", "transactions", "append", "commit", "reput", "flush"),
    *("clean", "allocate"),
)
assert tuple(CLASSES) == ACTORS
assert sorted(STOP_ORDER) == sorted(ACTORS)
