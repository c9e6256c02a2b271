"""What `Admin` can ask and do about consumer groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ...store.errors import StoreError
from ..session import Connection

_RESET_S = 0.005


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A consumer group and how many members it has now."""

    name: str
    members: int


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """Where a group is in a queue: `offset` is its next message, `end` the one that comes next of
    all, `member` the session that reads it (0: none).
    """

    topic: str
    queue_id: int
    offset: int
    end: int
    member: int

    @property
    def lag(self) -> int:
        """Messages that are there and not acknowledged."""
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member of a group: its session, how it reads, and how many queues it has."""

    session: int
    model: str
    instance: str
    queues: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group's progress in every queue, by topic and queue id, and who is in it."""

    name: str
    queues: list[QueueProgress]
    members: list[MemberInfo]

    @property
    def lag(self) -> int:
        """Messages that are there and not acknowledged, in all queues."""
        return sum(queue.lag for queue in self.queues)


class GroupAdmin:
    """The part of `Admin` that looks after groups. Methods raise IllegalMessage when the store
    refuses, StoreClosed when it is gone.
    """

    _link: Connection

    def groups(self) -> list[GroupInfo]:
        """Every group that is known, by name."""
        found: list[GroupInfo] = []
        more = True
        while more:
            after = found[-1].name if found else ""
            page = self._link.request({"do": "groups", "after": after})
            found += [GroupInfo(name, members) for name, members in page["groups"].items()]
            more = page["more"]
        return found

    def group(self, name: str) -> GroupState:
        """Progress and members of a group."""
        queues: list[QueueProgress] = []
        members: list[MemberInfo] = []
        more = True
        while more:
            page = self._link.request({"do": "group", "group": name, "after": len(queues)})
            queues += [QueueProgress(*row) for row in page["queues"]]
            members = [MemberInfo(*row) for row in page["members"]]
            more = page["more"]
        return GroupState(name, queues, members)

    def reset_offset(
        self, group: str, topic: str, offsets: Mapping[int, int], *, timeout: float = 60.0
    ) -> None:
        """Puts a group at other queue offsets (by queue id) of a topic. Members give the queues
        back first, which takes until their next poll.
        """
        if not offsets:
            raise ValueError("offsets: name at least one queue")
        request = {
            "do": "reset",
            "group": group,
            "topic": topic,
            "offsets": {str(queue): offset for queue, offset in offsets.items()},
        }
        deadline = time.monotonic() + timeout
        while self._link.request(request)["wait"]:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"group {group} has members that do not give back queues of {topic}: do they "
                    "still poll?"
                )
            time.sleep(_RESET_S)

    def delete_group(self, group: str) -> None:
        """Forgets a group that has no members: where it is, and how it consumes."""
        self._link.request({"do": "delete group", "group": group})
