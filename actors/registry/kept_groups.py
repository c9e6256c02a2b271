"""Groups whose members are connected to a broker, and are no clients of the store themselves.

The broker keeps their progress: it has an ack file for each such group (`store/groups/ack_file.py`)
and writes there what they commit. So their progress survives the death of every process, and is
folded and saved as that of other members. The registry makes a new file when the broker names
further queues, and when offsets are reset.

A group has either members that are clients of the store or members at one broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...shm.protocol.answers import Answer, Done, GroupSettings, KeptFile, ProgressFound
from ...shm.protocol.requests import AskProgress, Keep, KeptRequest, OpenGroup, Release, SetGroup
from ...store.config.offsets import GroupConfig
from ...store.groups import ack_file
from ...store.groups.ack_file import KEPT, About, AckReader, Queue
from ...store.names import validate_group
from ...store.topics.topic_table import TopicTable
from .group_configs import GroupConfigs
from .group_offsets import GroupProgress
from .members import Members
from .refusals import illegal

_MOST_QUEUES: Final = 1 << 16
#: The settings that a broker reads and sets, by their fields' names.
_SETTABLE: Final = (
    *("consume_enable", "consume_broadcast_enable"),
    *("notify_consumer_ids_changed_enable", "retry_max_times", "retry_queue_nums"),
)
_COUNTS: Final = ("retry_max_times", "retry_queue_nums")
_MOST_COUNT: Final = 1 << 20


@dataclass
class _Kept:
    """The queues of a group that the session with this index keeps, in its ack file `number`.
    `resets` are queues whose offsets were set: the ack file that was made then, and the offset.
    """

    index: int
    number: int
    queues: list[Queue]
    resets: dict[Queue, tuple[int, int]] = field(default_factory=dict)


class KeptGroups:
    """All such groups. Methods that take a request return its answer, and raise Refused."""

    def __init__(
        self,
        table: TopicTable,
        members: Members,
        progress: GroupProgress,
        configs: GroupConfigs,
    ) -> None:
        self._table = table
        self._members = members
        self._progress = progress
        self._configs = configs
        self._kept: dict[tuple[int, str], _Kept] = {}

    def adopt(self, reader: AckReader, index: int) -> None:
        """Takes over the group of a session with this index from a killed registry."""
        about = reader.about
        self._kept[about.session, about.group] = _Kept(index, reader.number, about.queues)

    def keeper_of(self, group: str) -> int | None:
        """The session that keeps a group, None if there is none."""
        return next((session for session, name in self._kept if name == group), None)

    def serve(
        self, session: int, index: int, request: KeptRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        """The answer to a request of a session, and descriptors for it, which the caller closes."""
        match request:
            case OpenGroup():
                return self._open(request), ()
            case SetGroup():
                return self._set(request), ()
            case Keep():
                return self._keep(session, index, request)
            case Release():
                self._release(session, request.group)
                return Done(), ()
            case AskProgress():
                return self._progress_of(request), ()

    def _open(self, request: OpenGroup) -> GroupSettings:
        validate_group(request.group)
        known = request.make or request.group in self._configs
        config = self._configs.get(request.group) if known else GroupConfig(request.group)
        return _settings(config, known=known)

    def _set(self, request: SetGroup) -> GroupSettings:
        validate_group(request.group)
        values = {
            name: value for name in _SETTABLE if (value := getattr(request, name)) is not None
        }
        for name in _COUNTS:
            if not -1 <= values.get(name, 0) <= _MOST_COUNT:
                raise illegal(f"{name} {values[name]}: -1 to {_MOST_COUNT}")
        return _settings(self._configs.change(request.group, values), known=True)

    def _progress_of(self, request: AskProgress) -> ProgressFound:
        topic = self._table.find(request.topic)
        queues = 0 if topic is None else len(topic.slots)
        return ProgressFound(offsets=self._progress.in_topic(request.group, request.topic, queues))

    def _keep(self, session: int, index: int, request: Keep) -> tuple[KeptFile, tuple[int, ...]]:
        group = request.group
        validate_group(group)
        if self._members.of(group):
            raise illegal(f"group {group} has members that are clients of the store: stop them")
        if self.keeper_of(group) not in (None, session):
            raise illegal(f"group {group} is served by another broker")
        kept = self._kept.get((session, group))
        has: set[Queue] = set() if kept is None else set(kept.queues)
        fresh = {
            (topic, queue_id): offset
            for topic, offsets in request.queues.items()
            for queue_id, offset in offsets.items()
            if (topic, queue_id) not in has
        }
        if len(has) + len(fresh) > _MOST_QUEUES:
            raise illegal(f"group {group} has more than {_MOST_QUEUES} queues")
        if fresh or kept is None:
            self._ends(list(fresh))  # refuses queues that are not there, before anything is done
            for queue, offset in fresh.items():
                self._progress.begin(group, queue, offset)
            kept = self._assign(session, index, group, sorted(has | set(fresh)))
        kept.resets = {q: reset for q, reset in kept.resets.items() if reset[0] > request.have}
        resets = [(*queue, offset) for queue, (_, offset) in kept.resets.items()]
        answer = KeptFile(number=kept.number, resets=resets)
        if request.have == kept.number:
            return answer, ()
        return answer, ack_file.hand_out(self._progress.folder, kept.number)

    def _assign(self, session: int, index: int, group: str, queues: list[Queue]) -> _Kept:
        """Makes a new ack file with these queues. Raises Refused for one that does not exist."""
        old = self._kept.get((session, group))
        about = About(group, session, KEPT, "", {}, queues)
        ends = self._ends(queues)
        number = self._progress.assign(about, ends, None if old is None else old.number)
        resets = {} if old is None else old.resets
        self._kept[session, group] = found = _Kept(index, number, queues, resets)
        return found

    def _ends(self, queues: list[Queue]) -> list[int]:
        topics = {topic: self._table.find(topic) for topic, _ in queues}
        ends = []
        for topic, queue_id in queues:
            found = topics[topic]
            if found is None or queue_id >= len(found.slots):
                raise illegal(f"topic {topic} has no queue {queue_id}")
            ends.append(self._table.queue_word(found.slots[queue_id], "max_offset").load())
        return ends

    def _release(self, session: int, group: str) -> None:
        kept = self._kept.pop((session, group), None)
        if kept is not None:
            self._progress.retire(kept.number)

    def leave(self, session: int) -> None:
        """Ends all that a session keeps."""
        for number, group in [key for key in self._kept if key[0] == session]:
            self._release(number, group)

    def was_reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Gives the keeper of a group a new ack file, because offsets were set: what it still
        writes into the old one does not count there. It learns of it by its notice.
        """
        for (session, name), kept in list(self._kept.items()):
            if name == group:
                fresh = self._assign(session, kept.index, group, kept.queues)
                for queue_id, offset in offsets.items():
                    fresh.resets[topic, queue_id] = fresh.number, offset
                self._table.notify(kept.index)

    def topic_deleted(self, topic: str) -> None:
        """Takes a deleted topic's queues from all keepers."""
        for (session, group), kept in list(self._kept.items()):
            left = [queue for queue in kept.queues if queue[0] != topic]
            if left != kept.queues:
                self._assign(session, kept.index, group, left)
                self._table.notify(kept.index)


def _settings(config: GroupConfig, *, known: bool) -> GroupSettings:
    """The settings that a broker needs."""
    return GroupSettings(known=known, **{name: getattr(config, name) for name in _SETTABLE})
