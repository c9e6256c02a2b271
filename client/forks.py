"""What a forked child does with the clients of its parent: it closes them, and never uses them.

A session belongs to one process. Two processes on one session would put frames into the same ring,
or acknowledge in the same ack file, and a child's copy of the socket would keep the session of a
dead parent alive. So the child closes its copies of all descriptors as soon as it exists. It closes
them only: a shutdown of the socket, or a lock that another thread held at the time of the fork,
would reach into the parent. Every further call raises ForkedChild.

The mappings stay, because messages that were read before the fork stay readable in the child. They
hold no descriptors, and are unmapped when the child drops the objects.

Only Python's own forks are seen (`os.fork`, and "fork" of multiprocessing). Descriptors are closed
on exec in any case. A fork waits while another thread opens or closes a client, or a file of a
running store (`store/disk/forks.py`).
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from .errors import ForkedChild


class Owner(Protocol):
    """An object with descriptors or threads that a forked child must not use."""

    def abandon(self) -> None:
        """Closes what the object has open, in a forked child, and makes it refuse further calls.
        Takes no lock and tells the store nothing. May be called again.
        """


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def abandon_in_child(owner: Owner) -> None:
    """Has `owner.abandon` called in every child that is forked while `owner` exists."""
    _owners.add(owner)


def forked_child(what: str, store: str) -> ForkedChild:
    """The error for a call of a client in a forked child. `what` is the kind of client."""
    return ForkedChild(
        f"this {what} of the store at {store} belongs to the process that opened it, and this is a "
        f"forked child: open one here (process {os.getpid()})"
    )


def _after_fork() -> None:
    for owner in list(_owners):
        owner.abandon()


os.register_at_fork(after_in_child=_after_fork)
