"""`ReadCounts`: what a client reads, counted on its session's page (`shm/reads.py`)."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sized
from typing import Any, Final, Protocol, TypeVar

from ..shm._memory import Mapping
from ..shm.control import ActorState, Control, process_number
from ..shm.protocol.figure_requests import AskReads
from ..shm.reads import SIZE, OwnReads
from ..store.errors import StoreError

_Found = TypeVar("_Found", bound=Sized | int | None)

#: How often a client looks whether the registry was replaced (s), and how long after a refusal it
#: asks again.
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 10.0


class _Link(Protocol):
    """A session with a store (`client/session.py`)."""

    control: Control

    def ask(self, request: Any) -> tuple[Any, list[int]]: ...

    def drop(self, fds: list[int]) -> None: ...


class ReadCounts:
    """Counts the reads of the session `link`. The registry that it asks for a page may be replaced;
    then it asks the new one.
    """

    def __init__(self, link: _Link) -> None:
        self._link = weakref.ref(link)  # which has this object
        self._page: OwnReads | None = None
        self._starts = -1  # of the registry that has made the page
        self._look_at = 0.0

    def find(self, found: _Found) -> _Found:
        """Counts a read that found these messages, or so many. Returns its argument, which is None
        at a queue's end.
        """
        page = self._page if time.monotonic() < self._look_at else self._current()
        if page is not None:
            count = found if isinstance(found, int) else 0 if found is None else len(found)
            if count:
                page.find(count)
            else:
                page.miss()
        return found

    def add(self, found: int, missed: int, messages: int) -> None:
        """Counts several reads: those that found messages, those that found none."""
        page = self._page if time.monotonic() < self._look_at else self._current()
        if page is not None:
            page.add(found, missed, messages)

    def _current(self) -> OwnReads | None:
        """The page to count on, after a look at the registry."""
        now = time.monotonic()
        self._look_at = now + _LOOK_S
        link = self._link()
        if link is None:
            return None
        _, starts, _, state = link.control.process(process_number("registry"))
        # A read does not wait for a registry that is just being replaced.
        if starts == self._starts or state != ActorState.READY:
            return self._page
        try:
            _, fds = link.ask(AskReads())
        except (StoreError, OSError):  # reads go on uncounted, and say themselves what is wrong
            self._look_at = now + _AGAIN_S
            return self._page
        try:
            self._page, self._starts = OwnReads(Mapping(fds[0], 0, SIZE)), starts
        finally:
            link.drop(fds)
        return self._page
