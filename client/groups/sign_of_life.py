"""The thread that answers for a member of a group while its reader cannot."""

from __future__ import annotations

import threading
import weakref
from typing import Final, Protocol

from ...shm._words import OwnedWord, Word, wait_any
from ...store.errors import StoreError
from ..session import HungUp

#: How long the reader may take before this thread answers, and how often it does so then (s). It
#: must be well below the setting `consumer_stopped_timeout_ms`, whose least value is 3 s.
PERIOD_S: Final = 1.0
_LONGEST_S = 60.0


class Answering(Protocol):
    """What the thread needs of a Membership."""

    def owes_answer(self) -> bool:
        """Whether the reader has not answered the newest notice."""

    def say_busy(self) -> None:
        """Tells the store that the process runs. Raises StoreError."""


def start(membership: Answering, notice: Word, over: OwnedWord) -> None:
    """Starts the thread. `end` ends it, and so does the end of `membership`, to which the thread
    refers weakly. `over` is a word of this process.

    The store changes `notice` when it asks something of the member, for instance to give back a
    queue. The thread of the reader answers, unless it is in a callback or does not poll. Then this
    thread says every second that the process runs. A stopped process does not, and loses its queues
    to other members soon. Neither does one whose callback holds the interpreter's lock: for the
    store it is stopped as well.

    While there is no notice the thread sleeps in the kernel.
    """
    found = weakref.ref(membership, lambda _: end(over))
    threading.Thread(
        target=_run, args=(found, notice, over), name="silomq-sign-of-life", daemon=True
    ).start()


def end(over: OwnedWord) -> None:
    """Has the thread end soon."""
    over.store(1)
    over.wake()


def _run(found: weakref.ref[Answering], notice: Word, over: Word) -> None:
    while not over.load():
        seen = notice.load()  # SYNC: notice observe
        if _is_answered(found):
            wait_any([notice, over], [seen, 0], _LONGEST_S)
            continue
        over.wait(0, PERIOD_S)
        if over.load() or _is_answered(found):
            continue
        try:
            _say_busy(found)
        except HungUp:
            return  # the session is over, as the reader will notice
        except StoreError:
            continue  # the registry does not answer: a request that is not heard is repeated


def _is_answered(found: weakref.ref[Answering]) -> bool:
    membership = found()
    return membership is None or not membership.owes_answer()


def _say_busy(found: weakref.ref[Answering]) -> None:
    membership = found()
    if membership is not None:
        membership.say_busy()
