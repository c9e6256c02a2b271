"""A session bell in a test's own memory: the test is the client, and a process of the store."""

from __future__ import annotations

import contextlib
import os
import select
from typing import TYPE_CHECKING

from silomq.client._bell import Bell
from silomq.shm import bell
from silomq.shm._bells import Bells
from silomq.shm._memory import Mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = bell.Reason.ANSWERS | bell.Reason.ARRIVALS | bell.Reason.FLUSHED | bell.Reason.NOTICES


def is_readable(fd: int, timeout_s: float = 0.0) -> bool:
    """Whether a descriptor is readable now, or becomes so in this time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


@contextlib.contextmanager
def bell_of(session: int) -> Iterator[tuple[Bells, Bell]]:
    """The bells of a process that serves one session, and the client's side of its bell, which was
    rung once and drained.
    """
    ends = bell.create(session)
    page = Mapping(ends.page, 0, bell.SIZE)
    seen = Mapping(ends.page, 0, bell.SIZE, writable=False)
    os.close(ends.page)
    bells = Bells()
    mine = Bell(page, ends.client)
    bells.attach(session, seen, ends.store)
    assert mine.drain()
    try:
        yield bells, mine
    finally:
        bells.detach(session)
        mine.close()
