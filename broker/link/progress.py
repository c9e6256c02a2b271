"""`Progress`: how far groups with members on the network are, in ack files of the broker's own.

What a client commits is written into a file that the kernel keeps, so that it survives the death of
every process. The registry makes such a file for each group, and a new one when the group commits
in further queues, or when its offsets were reset (`actors/registry/kept_groups.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from ...client.lookup.open_store import OpenStore
from ...client.session import Connection
from ...shm.protocol.answers import KeptFile
from ...shm.protocol.requests import AskProgress, Keep, Release
from ...store.errors import StoreError
from ...store.groups.ack_file import MOST_OFFSET, AckWriter, Queue
from ..loop.tasks import Waiter, start
from .store import StoreGone, StoreLink

Key = tuple[str, str, int]  # group, topic, queue id

#: A group that has no member and has committed nothing for so long (s) is given back.
_IDLE_S: Final = 10.0


class _Kept:
    """One group's ack file, and what waits for a new one."""

    def __init__(self) -> None:
        self.number = 0
        self.writer: AckWriter | None = None
        self.at: dict[Queue, int] = {}  # queue -> its place in the file
        self.waiting: dict[Queue, int] = {}
        self.waiters: list[Waiter[None]] = []
        self.asking = False
        self.again = False
        self.used_at = time.monotonic()

    def take(self, answer: KeptFile, fds: list[int]) -> None:
        """Takes the registry's answer. In the thread of requests."""
        self._answer = answer
        self._new = AckWriter(*fds) if fds else None

    _answer: KeptFile | None = None
    _new: AckWriter | None = None

    def adopt(self) -> dict[Queue, int]:
        """Goes on in the new file, if there is one. Returns the queues whose offsets were set."""
        answer, new = self._answer, self._new
        self._answer = self._new = None
        if answer is None:
            return {}
        self.number = answer.number
        if new is not None:
            self.writer = new
            self.at = {queue: i for i, queue in enumerate(new.about.queues)}
        resets = {(topic, queue_id): offset for topic, queue_id, offset in answer.resets}
        for queue in resets:  # commits from before do not count
            self.waiting.pop(queue, None)
        return resets


class Progress:
    """The offsets of all groups with members on the network."""

    def __init__(self, link: StoreLink, logger: Any) -> None:
        self._link = link
        self._logger = logger
        self._groups: dict[str, _Kept] = {}
        #: Offsets that an operator has set, until the group's next pull has been told.
        self.resets: dict[Key, int] = {}
        self._notice: int = 0
        link.began.append(self._begin)
        link.ended.append(self._lose)

    def _begin(self, connection: Connection, _: OpenStore) -> None:
        self._notice = connection.notice.load()

    def _lose(self) -> None:
        groups, self._groups = self._groups, {}
        gone = StoreGone("the store has ended the session")
        for kept in groups.values():
            for waiter in kept.waiters:
                waiter.fail(gone)

    async def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Notes that a group has consumed a queue up to an offset. A negative one says nothing: Go
        and C++ send it for a queue that they have not read. Raises StoreError when it cannot be
        noted.
        """
        if offset < 0 or (group, topic, queue_id) in self.resets:
            return
        offset = min(offset, MOST_OFFSET)
        kept = self._groups.get(group)
        if kept is None:
            kept = self._groups[group] = _Kept()
        kept.used_at = time.monotonic()
        place = kept.at.get((topic, queue_id))
        if place is not None and kept.writer is not None:
            kept.writer.move(place, offset)
            if kept.asking:  # a new file may have been made from the one before
                kept.waiting[topic, queue_id] = offset
            return
        kept.waiting[topic, queue_id] = offset
        waiter: Waiter[None] = Waiter()
        kept.waiters.append(waiter)
        self._ask_for(group, kept)
        await waiter

    def _ask_for(self, group: str, kept: _Kept) -> None:
        kept.again = True
        if not kept.asking:
            kept.asking = True
            start(self._keep(group, kept))

    async def _keep(self, group: str, kept: _Kept) -> None:
        """Asks for a file with all queues that wait, until there is nothing new to ask."""
        while kept.again or kept.waiting:
            kept.again = False
            waiters, kept.waiters = kept.waiters, []
            queues: dict[str, dict[int, int]] = {}
            for (topic, queue_id), offset in kept.waiting.items():
                queues.setdefault(topic, {})[queue_id] = offset
            error: Exception | None = None
            try:
                await self._link.ask_with(Keep(group, queues, kept.number), kept.take)
                self._note_resets(group, kept.adopt())
            except (StoreError, OSError) as failed:
                error = failed
                for topic, offsets in queues.items():
                    for queue_id in offsets:
                        kept.waiting.pop((topic, queue_id), None)
            for queue, offset in list(kept.waiting.items()):
                place = kept.at.get(queue)
                if place is not None and kept.writer is not None:
                    kept.writer.move(place, offset)
                    del kept.waiting[queue]
            for waiter in waiters:
                waiter.set(None) if error is None else waiter.fail(error)
        kept.asking = False

    def _note_resets(self, group: str, moved: dict[Queue, int]) -> None:
        for (topic, queue_id), offset in moved.items():
            self._logger.info(
                "offsets were reset", group=group, topic=topic, queue=queue_id, offset=offset
            )
            self.resets[group, topic, queue_id] = offset

    async def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset that a group has in a queue; None if it has not begun there."""
        reset = self.resets.get((group, topic, queue_id))
        if reset is not None:
            return reset
        kept = self._groups.get(group)
        if kept is not None:
            if (topic, queue_id) in kept.waiting:
                return kept.waiting[topic, queue_id]
            place = kept.at.get((topic, queue_id))
            if place is not None and kept.writer is not None:
                return kept.writer.offset(place)
        return (await self._link.ask(AskProgress(group, topic))).offsets.get(queue_id)

    def look(self) -> None:
        """Looks for news of the registry: offsets that an operator has reset."""
        if not self._link.is_up:
            return
        notice = self._link.connection.notice.load()
        if notice != self._notice:
            self._notice = notice
            for group, kept in self._groups.items():
                self._ask_for(group, kept)

    def tick(self, has_members: Callable[[str], bool]) -> None:
        """Gives back groups that nobody uses any more."""
        limit = time.monotonic() - _IDLE_S
        for group, kept in list(self._groups.items()):
            if kept.used_at < limit and not kept.asking and not has_members(group):
                del self._groups[group]
                start(self._release(group))

    async def _release(self, group: str) -> None:
        try:
            await self._link.ask(Release(group))
        except StoreError as error:
            self._logger.warning("cannot give back a group", group=group, error=str(error))
