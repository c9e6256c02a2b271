"""The methods of `Admin` for consumer groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ...shm.protocol.requests import AskGroup, AskGroups, DeleteGroup, Reset
from ...store.errors import IllegalArgument, StoreError
from .. import arguments
from ..session import Connection

_RESET_S = 0.005


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A consumer group: its name, and how many members it has now. The progress of a broadcasting
    member is kept as a group of its own, whose name starts with %BROADCAST%.
    """

    name: str
    members: int


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """Where a group is in a queue.

    `offset` is the queue offset of the first message that the group has not acknowledged. `end` is
    the offset that the queue's next message will get; 0 when the queue is gone. `member` is the
    session that reads the queue, 0 when no member reads it.
    """

    topic: str
    queue_id: int
    offset: int
    end: int
    member: int

    @property
    def lag(self) -> int:
        """Messages that are there and not acknowledged. Messages acknowledged out of order count as
        not acknowledged.
        """
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member of a group: the number of its session, its model, the name of its instance ("" when
    it has none), and how many queues it has. Models are "clustering", "broadcasting", "network",
    and "pop" for a session that popped in the last 30 s.
    """

    session: int
    model: str
    instance: str
    queues: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's progress in every queue, in the order of topics and queue ids, and its members in
    the order in which they joined, at most 200.

    Members that pop have `leased` messages now, and the oldest of their leases began at
    `oldest_lease_ms` (epoch ms, 0 without a lease).
    """

    name: str
    queues: list[QueueProgress]
    members: list[MemberInfo]
    leased: int
    oldest_lease_ms: int

    @property
    def lag(self) -> int:
        """Messages that are there and not acknowledged, in all queues."""
        return sum(queue.lag for queue in self.queues)


class GroupAdmin:
    """The part of `Admin` that looks after groups."""

    _link: Connection

    def groups(self) -> list[GroupInfo]:
        """All groups that the store knows, in the order of their names."""
        found: list[GroupInfo] = []
        more = True
        while more:
            page = self._link.request(AskGroups(found[-1].name if found else ""))
            found += [GroupInfo(name, members) for name, members in page.groups.items()]
            more = page.more
        return found

    def group(self, name: str) -> GroupState:
        """Progress and members of a group. Raises IllegalMessage for an unknown group."""
        name = arguments.text("group", name)
        queues: list[QueueProgress] = []
        members: list[MemberInfo] = []
        leased = oldest_ms = 0
        more = True
        while more:
            page = self._link.request(AskGroup(name, len(queues)))
            queues += [
                QueueProgress(q.topic, q.queue_id, q.offset, q.end, q.member) for q in page.queues
            ]
            members = [MemberInfo(m.session, m.model, m.instance, m.queues) for m in page.members]
            leased, oldest_ms = page.leased, page.oldest_ms
            more = page.more
        return GroupState(name, queues, members, leased, oldest_ms)

    def reset_offset(
        self, group: str, topic: str, offsets: Mapping[int, int], *, timeout: float | None = 60.0
    ) -> None:
        """Moves a group to other offsets of a topic: `offsets` is queue id -> queue offset, from
        the queue's first message to its end. The change is durable when this returns.

        Members of the group give these queues back first, which takes until their next poll. Raises
        IllegalArgument for no queue, IllegalMessage for a queue or offset that the topic does not
        have, and StoreError when members keep the queues for `timeout` seconds (None: no limit).
        """
        named = {
            arguments.whole("queue", queue_id, most=2**31 - 1): arguments.whole("offset", offset)
            for queue_id, offset in arguments.mapping("offsets", offsets, 1 << 16).items()
        }
        if not named:
            raise IllegalArgument("offsets: name at least one queue")
        request = Reset(arguments.text("group", group), arguments.text("topic", topic), named)
        deadline = time.monotonic() + arguments.seconds("timeout", timeout)
        while self._link.request(request).wait:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"group {group} has members that do not give back queues of {topic}: do they "
                    "still poll?"
                )
            time.sleep(_RESET_S)

    def delete_group(self, group: str) -> None:
        """Forgets a group: how far it is, and how it consumes. Raises IllegalMessage when the group
        has members.
        """
        self._link.request(DeleteGroup(arguments.text("group", group)))
