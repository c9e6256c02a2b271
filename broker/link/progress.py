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
from ...shm.protocol.requests import MOST_CLIENTS, AskProgress, Keep, Release, Remote
from ...store.errors import IllegalMessage, StoreError
from ...store.groups.ack_file import MOST_OFFSET, AckWriter, Queue
from ..loop.tasks import Waiter, start
from .shared_groups import SharedGroups
from .store import StoreGone, StoreLink

Key = tuple[str, str, int]  # group, topic, queue id

#: A group that has no member and has committed nothing for so long (s) is given back.
_IDLE_S: Final = 10.0


#: The registry reads no longer names: a client with one is no member beside clients of the store.
_MOST_NAME: Final = 1024

#: The client ids of members, and the topics to which one of them subscribes.
Named = tuple[list[str], list[str]]


class WithAnother(StoreError):
    """A queue is with a member that is a client of the store: nobody else may commit there."""

    def __init__(self, group: str, queue: Queue) -> None:
        super().__init__(
            f"queue {queue[1]} of {queue[0]} is with a member of {group} that is a client of the "
            "store: its commits count"
        )


class _Kept:
    """One group's ack file, and what waits for a new one. `told` is what the registry knows of its
    members, `named` the number of the file that it has made since.
    """

    def __init__(self) -> None:
        self.number = self.named = 0
        self.writer: AckWriter | None = None
        self.at: dict[Queue, int] = {}  # queue -> its place in the file
        self.waiting: dict[Queue, int] = {}
        self.waiters: list[tuple[Queue, Waiter[None]]] = []
        self.told: Named | None = None
        self.settling: list[Waiter[None]] = []
        self.asking = False
        self.tells = False
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
        had, self.number = self.number, answer.number
        self.named = answer.number
        resets: dict[Queue, int] = {}
        if new is not None:
            self.writer = new
            self.at = {queue: i for i, queue in enumerate(new.about.queues)}
            for topic, queue_id, offset, made in new.about.resets:
                if made > had:
                    resets[topic, queue_id] = offset
        for queue in resets:  # commits from before do not count
            self.waiting.pop(queue, None)
        return resets


class Progress:
    """The offsets of all groups with members on the network."""

    def __init__(self, link: StoreLink, logger: Any) -> None:
        self._link = link
        self._logger = logger
        #: Groups that have members in the store too.
        self.shared = SharedGroups(lambda *_: False, lambda *_: False)
        #: Who the clustering members of a group are, and what is called when they are to be told
        #: that members came or went.
        self.members: Callable[[str], Named] = lambda _: ([], [])
        self.notify: Callable[[str], None] = lambda _: None
        self._groups: dict[str, _Kept] = {}
        #: Offsets that an operator has set, until the group's next pull has been told.
        self.resets: dict[Key, int] = {}
        #: Called when an operator has set offsets.
        self.was_reset: list[Callable[[], None]] = []
        #: Called when the registry has news for this session.
        self.noticed: list[Callable[[], None]] = []
        #: Groups and topics that are popped here: what was committed is not all that counts.
        self.popped: set[tuple[str, str]] = set()
        self._notice: int = 0
        link.began.append(self._begin)
        link.ended.append(self._lose)

    def _begin(self, connection: Connection, _: OpenStore) -> None:
        self._notice = connection.notice.load()

    def _lose(self) -> None:
        groups, self._groups = self._groups, {}
        gone = StoreGone("the store has ended the session")
        self.shared.forget_all()
        for kept in groups.values():
            for waiter in [*(waiter for _, waiter in kept.waiters), *kept.settling]:
                waiter.fail(gone)

    def note(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Notes that a group has consumed a queue up to an offset. A negative one says nothing: Go
        and C++ send it for a queue that they have not read. False if the registry must be asked
        first, or a client of the store has the queue: then only `commit` can say.
        """
        if offset < 0 or (group, topic, queue_id) in self.resets:
            return True
        if self.shared.refuses(group, (topic, queue_id)):
            return False
        kept = self._groups.get(group)
        place = None if kept is None else kept.at.get((topic, queue_id))
        if kept is None or place is None or kept.writer is None:
            return False
        offset = min(offset, MOST_OFFSET)
        kept.used_at = time.monotonic()
        kept.writer.move(place, offset)
        if kept.asking:  # a new file may have been made from the one before
            kept.waiting[topic, queue_id] = offset
        return True

    async def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """As `note`, and asks the registry if it must. Raises StoreError, OSError, and WithAnother
        for a queue that a client of the store has.
        """
        if self.note(group, topic, queue_id, offset):
            return
        if self.shared.refuses(group, (topic, queue_id)):
            raise WithAnother(group, (topic, queue_id))
        offset = min(offset, MOST_OFFSET)
        kept = self._of(group)
        kept.used_at = time.monotonic()
        kept.waiting[topic, queue_id] = offset
        waiter: Waiter[None] = Waiter()
        kept.waiters.append(((topic, queue_id), waiter))
        self._ask_for(group, kept)
        await waiter

    def _of(self, group: str) -> _Kept:
        kept = self._groups.get(group)
        if kept is None:
            kept = self._groups[group] = _Kept()
        return kept

    def _ask_for(self, group: str, kept: _Kept, *, tells: bool = False) -> None:
        kept.tells |= tells
        if not kept.asking:
            kept.asking = True
            start(self._keep(group, kept))

    async def _keep(self, group: str, kept: _Kept) -> None:
        """Tells who the members are, and asks for a file with all queues that wait, until there is
        nothing new to tell or to ask.
        """
        while kept.tells or kept.waiting:
            tells, kept.tells = kept.tells, False
            waiters, kept.waiters = kept.waiters, []
            asked = dict(kept.waiting)
            error: Exception | None = None
            try:
                if tells:
                    await self._tell(group, kept)
                if asked or kept.named != kept.number:
                    request = Keep(group, _by_topic(asked), kept.number)
                    await self._link.ask_with(request, kept.take)
                    self._note_resets(group, kept.adopt())
            except (StoreError, OSError) as failed:
                error = failed
                kept.told = None if tells else kept.told  # it is told again
            self._write_waiting(kept, asked)
            for queue, waiter in waiters:
                if error is None and queue not in kept.at:
                    waiter.fail(WithAnother(group, queue))
                else:
                    waiter.set(None) if error is None else waiter.fail(error)
            self._end_settling(group, kept, error)
        kept.asking = False

    def _write_waiting(self, kept: _Kept, asked: dict[Queue, int]) -> None:
        """Writes what waited into the file. What was asked and has no place there cannot be noted:
        the request failed, or a member of another kind has the queue.
        """
        for queue, offset in list(kept.waiting.items()):
            place = kept.at.get(queue)
            if place is not None and kept.writer is not None:
                kept.writer.move(place, offset)
                del kept.waiting[queue]
            elif queue in asked:
                del kept.waiting[queue]

    # -- members

    def tell(self, group: str) -> None:
        """Tells the registry who the members of a group are now."""
        if self._link.is_up:
            self._ask_for(group, self._of(group), tells=True)

    async def settle(self, group: str) -> None:
        """Waits until the registry knows who the members of a group are. Raises StoreGone."""
        kept = self._of(group)
        if kept.told == self._named(group) and not kept.tells:
            return
        waiter: Waiter[None] = Waiter()
        kept.settling.append(waiter)
        self._ask_for(group, kept, tells=True)
        await waiter

    def _named(self, group: str) -> Named:
        clients, topics = self.members(group)
        return (
            [one for one in clients if len(one) <= _MOST_NAME][:MOST_CLIENTS],
            [one for one in topics if len(one) <= _MOST_NAME][:MOST_CLIENTS],
        )

    async def _tell(self, group: str, kept: _Kept) -> None:
        named = self._named(group)
        shared = self.shared.get(group)
        given = {} if shared is None else dict(shared.given)
        released = [(*queue, offset) for queue, offset in given.items()]
        try:
            answer = await self._link.ask(Remote(group, *named, released))
        except IllegalMessage as error:  # another broker has the group, or the registry is busy
            self._logger.warning("cannot name members", group=group, error=str(error))
            kept.told = None  # it is told again
            return
        kept.told, kept.named = named, answer.number
        if not answer.number:
            kept.number, kept.writer, kept.at = 0, None, {}
        if shared is not None:
            for queue in given:
                del shared.given[queue]
        if self.shared.take(group, answer, named[1]):
            self.notify(group)

    def _end_settling(self, group: str, kept: _Kept, error: Exception | None) -> None:
        if kept.told == self._named(group) or not kept.tells:
            settling, kept.settling = kept.settling, []
            for waiter in settling:
                waiter.fail(error) if isinstance(error, StoreGone) else waiter.set(None)

    def give_back(self) -> None:
        """Gives back to the store the queues that it has revoked and that no client reads now."""
        for group in self.shared.look():
            shared = self.shared.get(group)
            assert shared is not None
            for queue in shared.given:  # what was set there is in its progress
                self.resets.pop((group, *queue), None)
            self.tell(group)

    def _note_resets(self, group: str, moved: dict[Queue, int]) -> None:
        for (topic, queue_id), offset in moved.items():
            if self.shared.refuses(group, (topic, queue_id)):
                continue
            self._logger.info(
                "offsets were reset", group=group, topic=topic, queue=queue_id, offset=offset
            )
            self.resets[group, topic, queue_id] = offset
        if moved:
            for call in self.was_reset:
                call()

    async def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset that a group has in a queue; None if it has not begun there."""
        reset = self.resets.get((group, topic, queue_id))
        if reset is not None:
            return reset
        kept = self._groups.get(group)
        if kept is not None and (group, topic) not in self.popped:
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
            for call in self.noticed:
                call()
            for group, kept in self._groups.items():
                self._ask_for(group, kept, tells=True)

    def tick(self, has_members: Callable[[str], bool]) -> None:
        """Gives back groups and queues that nobody uses any more, and tells the registry again of
        members that it has not accepted.
        """
        self.shared.tick()
        self.give_back()
        limit = time.monotonic() - _IDLE_S
        for group, kept in list(self._groups.items()):
            if kept.used_at < limit and not kept.asking and not has_members(group):
                kept.asking = True
                start(self._release(group, kept))
            elif not kept.asking and kept.told is None and self._named(group)[0]:
                self.tell(group)

    async def release(self, group: str) -> None:
        """Gives back a group that has no member here, so that it can be deleted at once."""
        kept = self._groups.get(group)
        if kept is not None and not kept.asking:
            kept.asking = True
            await self._release(group, kept)

    async def _release(self, group: str, kept: _Kept) -> None:
        """Gives back a group. One that is used again meanwhile is asked for anew."""
        released = False
        try:
            await self._link.ask(Release(group))
            released = True
            kept.number, kept.writer, kept.at, kept.told = 0, None, {}, None
        except (StoreError, OSError) as error:
            self._logger.warning("cannot give back a group", group=group, error=str(error))
            kept.used_at = time.monotonic()  # it is tried again
        if released and not kept.tells and not kept.waiting:
            if self._groups.get(group) is kept:
                del self._groups[group]
                self.shared.forget(group)
            return
        await self._keep(group, kept)


def _by_topic(queues: dict[Queue, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (topic, queue_id), offset in queues.items():
        found.setdefault(topic, {})[queue_id] = offset
    return found
