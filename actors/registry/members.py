"""The members of the consumer groups, as the registry keeps them in memory."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from ...conf.settings import Settings
from ...shm.protocol.requests import Start
from ...store.groups.ack_file import About, Queue
from ...store.names import retry_topic
from .refusals import illegal

CLUSTERING: Final = "clustering"
BROADCASTING: Final = "broadcasting"
#: How members that are connected to a broker are shown.
NETWORK: Final = "network"
_HOST: Final = os.uname().nodename


class Member(msgspec.Struct):
    """A session that reads as part of a group. `session` is its number, `index` its index in the
    topic table, `number` the number of its ack file.

    A member has the queues `owned`, and is to have the queues `target`. `stale` are owned queues of
    deleted topics. `start` is where it has the group begin; a later registry does not know it.

    Times are in monotonic seconds. `asked_at` is when queues were revoked that the member has not
    given back; 0 if there are none. `silent_since` is when a sign of life was asked for that has
    not come; 0 if none is due. `offsets` are the member's offsets at the last look.
    """

    session: int
    index: int
    about: About
    number: int
    owned: set[Queue] = set()
    target: set[Queue] = set()
    stale: set[Queue] = set()
    asked_at: float = 0.0
    silent_since: float = 0.0
    offsets: dict[Queue, int] = {}
    start: Start = msgspec.field(default_factory=lambda: Start("earliest"))

    @property
    def client_id(self) -> str:
        """The member's name in the list by which members on the network divide queues."""
        return f"{_HOST}@local#{self.session}"

    @property
    def exclusive(self) -> bool:
        """Whether no other member of the group may have the same queue."""
        return self.about.model == CLUSTERING

    def revoke(self, now: float) -> None:
        """Notes that the member is asked to give back queues, unless it is asked already."""
        self.asked_at = self.asked_at or now
        self.ask(now)

    def ask(self, now: float) -> None:
        """Notes that a sign of life is due, unless one is due already."""
        self.silent_since = self.silent_since or now

    def hear(self, now: float) -> None:
        """Notes a sign of life. The next one is due at once while queues are not given back."""
        self.silent_since = now if self.asked_at else 0.0

    def settle(self) -> None:
        """Notes that the member has given back what was revoked."""
        self.asked_at = self.silent_since = 0.0

    def overdue(self, now: float, release_s: float, stopped_s: float) -> str:
        """Why the member is to be expelled; "" if it is not. It has `release_s` to give back
        queues, and must give a sign of life every `stopped_s` meanwhile.
        """
        if self.asked_at and now - self.asked_at > release_s:
            return "it did not give back its queues in time"
        if self.silent_since and now - self.silent_since > stopped_s:
            return "its process gave no sign of life: is it stopped?"
        return ""


class Members(dict[int, Member]):
    """All members by their sessions' numbers."""

    def of(self, group: str) -> list[Member]:
        """The members of a group in the order in which they joined."""
        found = [member for member in self.values() if member.about.group == group]
        return sorted(found, key=lambda member: member.session)

    def overdue(self, now: float, settings: Settings) -> list[tuple[Member, str]]:
        """The members that are to be expelled at `now` (monotonic, s), and why."""
        release_s = settings.consumer_release_timeout_ms / 1000
        stopped_s = settings.consumer_stopped_timeout_ms / 1000
        found = ((one, one.overdue(now, release_s, stopped_s)) for one in self.values())
        return [(one, why) for one, why in found if why]

    def readers_of(self, topic: str) -> set[str]:
        """The groups with a member that reads a topic."""
        return {m.about.group for m in self.values() if topic in m.about.filters}

    def check_nothing_assigned(self, group: str) -> None:
        """Raises Refused for a group among whose members queues are divided."""
        if any(member.exclusive for member in self.of(group)):
            raise illegal(f"group {group} has members to whom queues are assigned: stop them first")

    def check_alike(self, group: str, model: str, filters: dict[str, tuple[str, str]]) -> None:
        """Raises Refused for a member whose model or filters differ from the group's members'. In
        RocketMQ the last subscription replaces the others, and messages are lost.
        """
        for member in self.of(group):
            theirs = {t: f for t, f in member.about.filters.items() if t != retry_topic(group)}
            if member.about.model != model or theirs != filters:
                raise illegal(
                    f"group {group} has members that read {theirs} ({member.about.model}), not "
                    f"{filters} ({model}): stop them first, or use a group of another name"
                )
