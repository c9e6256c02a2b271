"""A member of a group whose queues are in memory, for tests of its quick turns."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from support.mapped_queues import QueueInMemory

from silomq.client.groups._assigned_queue import AssignedQueue
from silomq.client.groups._quick_turns import QuickTurns
from silomq.client.groups.subscription import Selection
from silomq.client.liveness import RECENT_S
from silomq.store.groups import ack_file
from silomq.store.groups.ack_file import About, AckReader, AckWriter, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from silomq.client.consuming.cursor import Cursor
    from silomq.client.consuming.message_view import MessageView
    from silomq.client.groups.listener import Listener
    from silomq.store.disk.files import Folder

ANY = sys.maxsize
#: Longer than any test takes, s.
LONG_S = 3600.0


class Calls:
    """A listener: what it was called for, and what it sent back."""

    def __init__(self, do: Callable[[int], object] = lambda _: None) -> None:
        self._stopping = False
        self._do = do
        self.given: list[int] = []
        self.failed: list[int] = []
        self.returned: list[int] = []

    def _callback(self, message: MessageView) -> object:
        self.given.append(message.queue_offset)
        return self._do(message.queue_offset)

    def _note_failure(self, message: MessageView) -> None:
        self.failed.append(message.queue_offset)

    def _send_back(self, message: MessageView) -> None:
        self.returned.append(message.queue_offset)


class Lock:
    """Counts how often it was let go, and then calls `after`."""

    def __init__(self) -> None:
        self.after: Callable[[], object] = lambda: None
        self.held = threading.RLock()

    def __enter__(self) -> None:
        self.held.acquire()

    def __exit__(self, *_: object) -> None:
        self.held.release()
        self.after()


class Member:
    """Two queues of a member, whose turns these are."""

    def __init__(self, folder: Folder, there: int) -> None:
        self.folder = folder
        about = About(
            "g", 7, "clustering", "", {"topic": ("TAG", "*")}, [("topic", 3), ("topic", 4)]
        )
        ack_file.create(folder, 1, about, [Progress(0), Progress(0)])
        fds = ack_file.hand_out(folder, 1)
        writer = AckWriter(*fds)
        for fd in fds:
            os.close(fd)
        self.one, self.two = QueueInMemory(2100, there), QueueInMemory(10, 0, queue_id=4)
        self.queues = [
            AssignedQueue(("topic", 3 + i), cast("Cursor", queue.cursor), writer, i)
            for i, queue in enumerate((self.one, self.two))
        ]
        self.lock = Lock()
        self.notice = self.one.notice
        self.turns = QuickTurns(
            self.lock,
            [self.notice, self.one.arrival, self.two.arrival],
            self.queues,
            [Selection("TAG", "*")] * 2,
            self.one.wrote,
        )
        self.looked()

    def looked(self, seconds: float = 0.0, most_written: int = ANY) -> None:
        """The session was looked at at this moment, seconds from now."""
        until_s = time.monotonic() + seconds + RECENT_S
        self.turns.begin(self.notice.load(), most_written, until_s)

    def run(self, calls: Calls, limit: int = 32) -> tuple[AssignedQueue, list[int]] | None:
        left = self.turns.call_back(cast("Listener", calls), limit, ANY)
        if left is None:
            return None
        return left[0], [message.queue_offset for message in left[1]]

    def acknowledged(self) -> list[int]:
        progress = AckReader(self.folder, 1).progress()
        return [progress["topic", 3].offset, progress["topic", 4].offset]


@contextmanager
def later(do: Callable[[], object], seconds: float) -> Iterator[None]:
    thread = threading.Timer(seconds, do)
    thread.start()
    try:
        yield
    finally:
        thread.join()
