"""Groups with members that are connected to a broker, and are no clients of the store themselves.

The broker keeps their progress: it has an ack file for each such group (`store/groups/ack_file.py`)
and writes there what they commit. So their progress survives the death of every process, and is
folded and saved as that of other members. The registry makes a new file when the broker names
further queues, when the broker's members come or go, and when offsets are reset.

A group has members at one broker only. Beside them it may have members that are clients of the
store. Each queue is then with one of the two kinds, and its progress in one ack file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import asdict

from ...shm.protocol.admin_requests import AskGroupConfigs, AskOffsets, AskReaders, Forbid
from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import (
    Done,
    GroupConfigsPage,
    GroupSettings,
    KeptFile,
    OffsetsPage,
    ProgressFound,
    ReadersFound,
    Sides,
    Version,
)
from ...shm.protocol.requests import (
    AskProgress,
    Keep,
    KeptRequest,
    OpenGroup,
    Release,
    Remote,
    SetGroup,
)
from ...store.config.offsets import GroupConfig
from ...store.groups import ack_file
from ...store.groups.ack_file import AckReader, Queue
from ...store.names import validate_group, validate_topic
from ...store.topics.topic_table import TopicTable
from . import attributes
from .group_configs import GroupConfigs
from .group_offsets import GroupProgress
from .members import Member, Members
from .refusals import Refused, illegal
from .sides import Side

_MOST_QUEUES: Final = 1 << 16
#: The settings that a broker reads and sets, by their fields' names.
_SETTABLE: Final = (
    *("consume_enable", "consume_broadcast_enable"),
    *("notify_consumer_ids_changed_enable", "retry_max_times", "retry_queue_nums"),
)
#: Those that it sets for RocketMQ's tools, which read them.
_KEPT_ONLY: Final = (
    *("broker_id", "consume_from_min_enable", "consume_message_orderly"),
    *("consume_timeout_minute", "group_sys_flag", "which_broker_when_consume_slowly"),
)
_COUNTS: Final = ("retry_max_times", "retry_queue_nums")
_MOST_COUNT: Final = 1 << 20


class KeptGroups:
    """All such groups. Methods that take a request return its answer, and raise Refused.

    `notify` wakes a member, or the broker of a side. `changed` is called with a group whose queues
    are to be divided anew.
    """

    def __init__(
        self,
        table: TopicTable,
        members: Members,
        progress: GroupProgress,
        configs: GroupConfigs,
        *,
        notify: Callable[[Member | Side], None],
        changed: Callable[[str], None],
        logger: Any,
    ) -> None:
        self._table = table
        self._members = members
        self._progress = progress
        self._configs = configs
        self._notify = notify
        self._changed = changed
        self._logger = logger
        self._sides: dict[str, Side] = {}

    def adopt(self, reader: AckReader, index: int) -> None:
        """Takes over the group of a session with this index from a killed registry."""
        side = Side.of(reader.about, index, reader.number)
        self._sides[side.group] = side
        self._changed(side.group)

    def keeper_of(self, group: str) -> int | None:
        """The session that keeps a group, None if there is none."""
        side = self._sides.get(group)
        return None if side is None or side.index < 0 else side.session

    def side_of(self, group: str) -> Side | None:
        """A group's members on the network, and what they have; None if there is nothing of it."""
        return self._sides.get(group)

    def readers_of(self, topic: str) -> set[str]:
        """The groups with a member on the network that subscribes to a topic."""
        return {group for group, side in self._sides.items() if topic in side.topics}

    def __iter__(self) -> Iterator[Side]:
        return iter(self._sides.values())

    def serve(
        self, session: int, index: int, request: KeptRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        """The answer to a request of a session, and descriptors for it, which the caller closes."""
        match request:
            case OpenGroup():
                return self._open(request), ()
            case SetGroup():
                return self._set(request), ()
            case Forbid():
                return self._forbid(request), ()
            case AskGroupConfigs():
                return self._page(request), ()
            case Keep():
                return self._keep(session, index, request)
            case Release():
                self._release(session, request.group)
                return Done(), ()
            case Remote():
                return self._name(session, index, request), ()
            case AskProgress():
                return self._progress_of(request), ()
            case AskOffsets():
                offsets, more = self._progress.page(request.after)
                return OffsetsPage(offsets=offsets, more=more), ()
            case AskReaders():
                return ReadersFound(groups=self._progress.readers_of(request.topic)), ()

    def _open(self, request: OpenGroup) -> GroupSettings:
        validate_group(request.group)
        known = request.make or request.group in self._configs
        config = self._configs.get(request.group) if known else GroupConfig(request.group)
        return self._settings(config, known=known)

    def _set(self, request: SetGroup) -> GroupSettings:
        validate_group(request.group)
        values: dict[str, Any] = {
            name: value
            for name in (*_SETTABLE, *_KEPT_ONLY)
            if (value := getattr(request, name)) is not None
        }
        for name in _COUNTS:
            if not -1 <= values.get(name, 0) <= _MOST_COUNT:
                raise illegal(f"{name} {values[name]}: -1 to {_MOST_COUNT}")
        before = self._configs.known.get(request.group, GroupConfig(request.group))
        values["attributes"] = attributes.changed(before.attributes, request)
        return self._settings(self._configs.change(request.group, values), known=True)

    def _forbid(self, request: Forbid) -> GroupSettings:
        validate_topic(request.topic)
        if request.group not in self._configs:
            raise illegal(f"there is no consumer group {request.group}")
        self._configs.forbid(request.group, request.topic, readable=request.readable)
        return self._settings(self._configs.get(request.group), known=True)

    def _page(self, request: AskGroupConfigs) -> GroupConfigsPage:
        configs, more = self._configs.page(request.after, request.only)
        version = Version(**asdict(self._configs.version))
        table = self._configs.known.forbidden
        forbidden = {name: table[name] for name in configs if name in table}
        return GroupConfigsPage(configs=configs, forbidden=forbidden, version=version, more=more)

    def _settings(self, config: GroupConfig, *, known: bool) -> GroupSettings:
        """The settings that a broker needs."""
        values = {name: getattr(config, name) for name in _SETTABLE}
        forbidden = self._configs.forbidden(config.group_name)
        return GroupSettings(known=known, forbidden=forbidden, **values)

    def _progress_of(self, request: AskProgress) -> ProgressFound:
        topic = self._table.find(request.topic)
        queues = 0 if topic is None else len(topic.slots)
        return ProgressFound(offsets=self._progress.in_topic(request.group, request.topic, queues))

    def _own(self, session: int, index: int, group: str) -> Side:
        """The session's side of a group, a new one if it has none. Raises Refused if the group has
        another broker.
        """
        validate_group(group)
        if self.keeper_of(group) not in (None, session):
            raise illegal(f"group {group} is served by another broker")
        side = self._sides.get(group)
        if side is None:
            return Side(group, session, index, has=set() if self._members.of(group) else None)
        return side if side.session == session else side.succeed(session, index)

    def _keep(self, session: int, index: int, request: Keep) -> tuple[KeptFile, tuple[int, ...]]:
        group = request.group
        side = self._own(session, index, group)
        members = self._members.of(group)
        if members and not side.members and not side.queues:
            raise illegal(f"group {group} has members that are clients of the store: stop them")
        theirs = {topic for member in members for topic in member.about.filters}
        fresh = {
            (topic, queue_id): offset
            for topic, offsets in request.queues.items()
            for queue_id, offset in offsets.items()
            if (topic, queue_id) not in side.queues
            and (topic not in theirs or side.holds((topic, queue_id)))
        }
        if len(side.queues) + len(fresh) > _MOST_QUEUES:
            raise illegal(f"group {group} has more than {_MOST_QUEUES} queues")
        if fresh or not side.number:
            self._ends(list(fresh))  # refuses queues that are not there, before anything is done
            for queue, offset in fresh.items():
                self._progress.begin(group, queue, offset)
            if side.has is not None:
                added = {queue for queue in fresh if queue[0] not in theirs}
                side.has |= added
                if side.target is not None:
                    side.target = side.target | added
            self._assign(side, sorted({*side.queues, *fresh}))
        side.knows = request.have
        answer = KeptFile(number=side.number)
        if request.have == side.number:
            return answer, ()
        return answer, ack_file.hand_out(self._progress.folder, side.number)

    def _assign(self, side: Side, queues: list[Queue]) -> None:
        """Makes a new ack file with these queues, without those of topics that are being deleted.
        Raises Refused for a queue that does not exist, OSError.
        """
        queues = [queue for queue in queues if self._table.find(queue[0]) is not None]
        ends = self._ends(queues)
        side.resets = {q: reset for q, reset in side.resets.items() if reset[0] > side.knows}
        side.number = self._progress.assign(side.about(queues), ends, side.number or None)
        side.queues = queues
        self._sides[side.group] = side

    def _ends(self, queues: list[Queue]) -> list[int]:
        topics = {topic: self._table.find(topic) for topic, _ in queues}
        ends = []
        for topic, queue_id in queues:
            found = topics[topic]
            if found is None or queue_id >= len(found.slots):
                raise illegal(f"topic {topic} has no queue {queue_id}")
            ends.append(self._table.queue_word(found.slots[queue_id], "max_offset").load())
        return ends

    # -- beside members that are clients of the store

    def _name(self, session: int, index: int, request: Remote) -> Sides:
        """Notes the clients of a session, and what they have given back. Gives them the queues that
        are theirs and that no other member has.
        """
        group = request.group
        side = self._own(session, index, group)
        members = self._members.of(group)
        before = sorted(side.members), set(side.topics)
        side.name(request.clients, request.topics)
        if not side.members and not side.queues and not side.has:
            self._drop(group, side)
            return self._answer(side, members)
        freed: set[Queue] = set()
        if not members:
            side.alone()
        elif side.has is None:
            side.has = side.all_queues(self._table) - _owned(members)
        else:
            freed = self._give_back(side, request.released)
            if side.target is not None:
                side.has |= side.target - _owned(members)
            side.settle()
        queues = [queue for queue in side.queues if side.has is None or queue in side.has]
        if side.number == 0 or self._progress.living[side.number].about != side.about(queues):
            self._assign(side, queues)
        for member in members:
            if freed & member.target:
                self._notify(member)
        if before != (sorted(side.members), side.topics):
            self._changed(group)
        return self._answer(side, members)

    def _give_back(self, side: Side, released: list[tuple[str, int, int]]) -> set[Queue]:
        """Takes back queues of a side. A group that has committed nothing in one begins where its
        clients have.
        """
        assert side.has is not None
        freed = {(topic, queue_id) for topic, queue_id, _ in released} & side.has
        for topic, queue_id, offset in released:
            if (topic, queue_id) in freed and offset >= 0:
                self._progress.begin(side.group, (topic, queue_id), offset)
        side.has -= freed
        return freed

    def _answer(self, side: Side, members: list[Member]) -> Sides:
        has = side.has or set()
        return Sides(
            number=side.number,
            mixed=bool(members),
            clients=[*side.members, *(member.client_id for member in members)],
            has=sorted(has),
            revoked=sorted(side.revoked) if members else [],
        )

    def tick(self, patience_s: float) -> None:
        """Forgets clients that have not come back to another broker. Takes the queues of sides that
        have not given them back for so long: their broker does not work.
        """
        now = time.monotonic()
        for group, side in list(self._sides.items()):
            if side.expected and side.until <= now:
                side.expected = []
                if side.index < 0:
                    del self._sides[group]
                self._changed(group)
            if side.asked_at and now - side.asked_at > patience_s and side.index >= 0:
                self._take(side)

    def _take(self, side: Side) -> None:
        before = side.has
        assert before is not None, "only what a side has is revoked"
        self._logger.warning("a broker does not give back queues: taken", group=side.group)
        side.has = before - side.revoked
        try:
            self._assign(side, [queue for queue in side.queues if queue in side.has])
        except (OSError, Refused) as error:
            self._logger.error("cannot take queues", group=side.group, error=str(error))
            side.has, side.asked_at = before, time.monotonic()
            return
        side.asked_at = 0.0
        self._notify(side)
        self._changed(side.group)

    # -- the end

    def _drop(self, group: str, side: Side) -> None:
        if self._sides.pop(group, None) is not None:
            self._changed(group)
        if side.number:
            self._progress.retire(side.number)
            side.number = 0

    def _release(self, session: int, group: str) -> None:
        if self.keeper_of(group) == session:
            self._drop(group, self._sides[group])

    def leave(self, session: int) -> None:
        """Ends all that a session keeps. Its clients count as members for a while: they may come to
        another broker of the store.
        """
        for group, side in list(self._sides.items()):
            if side.index >= 0 and side.session == session:
                stays = side.leave(self._table)
                self._drop(group, side)
                if stays.expected:
                    self._sides[group] = stays

    def forget(self, group: str) -> None:
        """Forgets the clients of a broker that has ended."""
        self._sides.pop(group, None)

    def was_reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Gives the keeper of a group a new ack file, because offsets were set: what it still
        writes into the old one does not count there. It learns of it by its notice.
        """
        side = self._sides.get(group)
        if side is None or side.index < 0:
            return
        for queue_id, offset in offsets.items():
            if side.has is None or (topic, queue_id) in side.has:
                side.resets[topic, queue_id] = self._progress.newest, offset
        self._assign(side, side.queues)
        self._notify(side)

    def topic_deleted(self, topic: str) -> None:
        """Takes a deleted topic's queues from all keepers."""
        for side in list(self._sides.values()):
            if side.has is not None:
                side.has = {queue for queue in side.has if queue[0] != topic}
            if side.target is not None:
                side.target = {queue for queue in side.target if queue[0] != topic}
            left = [queue for queue in side.queues if queue[0] != topic]
            if left != side.queues:
                self._assign(side, left)
                self._notify(side)


def _owned(members: list[Member]) -> set[Queue]:
    return set[Queue]().union(*(member.owned for member in members))
