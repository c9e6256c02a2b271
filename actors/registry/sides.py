"""`Side`: what the registry knows of a group's members on the network, for whom a broker speaks.

A side is to the registry what a member is: it has queues, and gives back those that are revoked.
Which of its clients reads which of its queues is the clients' own division.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import msgspec

from ...store.groups.ack_file import KEPT, About, Queue
from ...store.topics.topic_table import TopicTable

#: The clients of a broker that has ended count as members for so long (s). RocketMQ's clients send
#: a heart-beat every 30 s, so those that live have met the next broker by then.
GRACE_S: Final = 45.0
_READABLE: Final = 4


class Side(msgspec.Struct):
    """The members of `group` for which the session with this number and index speaks; index -1 is
    that of a broker that has ended, whose clients are expected back.

    `number` is that of the session's ack file, and `queues` are those in it. `resets` are queues
    whose offsets were set: the number of the ack file that did, and the offset. The session may not
    have learnt of them yet, if its own file, which it `knows`, is older.

    `clients` are the client ids that the broker has named, `expected` further ones of the broker
    before it, until `until` (monotonic, s). `topics` are those to which one of them subscribes.
    The side has the queues `has`. None stands for all queues of its topics: then no member of the
    other kind has been given one. It is to have the queues `target`, if the registry has divided
    already. `asked_at` is when queues were revoked that the side has not given back; 0 if there are
    none.
    """

    group: str
    session: int
    index: int
    number: int = 0
    queues: list[Queue] = []
    resets: dict[Queue, tuple[int, int]] = {}
    knows: int = 0
    clients: list[str] = []
    expected: list[str] = []
    until: float = 0.0
    topics: set[str] = set()
    has: set[Queue] | None = None
    target: set[Queue] | None = None
    asked_at: float = 0.0

    @property
    def members(self) -> list[str]:
        """All client ids that count in the division."""
        return [*self.clients, *self.expected]

    def holds(self, queue: Queue) -> bool:
        """Whether no member of the other kind may have the queue now."""
        if self.has is None:
            return queue[0] in self.topics or queue in self.queues
        return queue in self.has

    def about(self, queues: Iterable[Queue]) -> About:
        """The description of an ack file with these queues, from which `of` makes the side anew."""
        filters = dict.fromkeys(sorted(self.topics), ("TAG", "*"))
        has = None if self.has is None else sorted(self.has)
        resets = [(*queue, offset, number) for queue, (number, offset) in self.resets.items()]
        return About(
            self.group, self.session, KEPT, "", filters, sorted(queues), sorted(self.members), has,
            sorted(resets),
        )  # fmt: skip

    @classmethod
    def of(cls, about: About, index: int, number: int) -> Side:
        """The side whose newest ack file has this number."""
        has = None if about.has is None else set(about.has)
        return cls(
            about.group, about.session, index, number, about.queues,
            clients=about.clients, topics=set(about.filters), has=has,
            resets={(topic, queue): (made, to) for topic, queue, to, made in about.resets},
        )  # fmt: skip

    def succeed(self, session: int, index: int) -> Side:
        """The side for which another session speaks from now on. It has named no clients yet."""
        return Side(
            self.group, session, index, expected=self.members, until=self.until,
            topics=set(self.topics), has=self.has, target=self.target,
        )  # fmt: skip

    def leave(self, table: TopicTable) -> Side:
        """What stays of the side for a while when its broker has ended."""
        found = self.succeed(0, -1)
        found.until = time.monotonic() + GRACE_S
        if found.has is None:
            found.has = self.all_queues(table)
        return found

    def name(self, clients: list[str], topics: Iterable[str]) -> None:
        """Takes over what the broker says of its clients."""
        known = set(clients)
        self.clients = clients
        self.expected = [one for one in self.expected if one not in known]
        self.topics = {*topics, *(self.topics if self.expected else ())}

    def all_queues(self, table: TopicTable) -> set[Queue]:
        """All queues of the topics, and those that were committed."""
        return set(self.queues).union(*(queues_of(table, topic) for topic in self.topics))

    @property
    def revoked(self) -> set[Queue]:
        """The queues that the side is to give back."""
        return set() if self.has is None or self.target is None else self.has - self.target

    def set_target(self, target: set[Queue], table: TopicTable) -> None:
        """Notes which queues the side is to have beside members of the other kind."""
        if self.has is None:
            self.has = self.all_queues(table)
        self.target = target
        self.settle()

    def alone(self) -> None:
        """Notes that the group has no members of the other kind any more: it has all queues."""
        self.has = self.target = None
        self.asked_at = 0.0

    def settle(self) -> None:
        """Notes since when the side is to give back queues."""
        self.asked_at = (self.asked_at or time.monotonic()) if self.revoked else 0.0


def queues_of(table: TopicTable, topic: str) -> set[Queue]:
    """The queues of a topic from which consumers may read."""
    found = table.find(topic)
    if found is None or not found.perm & _READABLE:
        return set()
    return {(topic, queue_id) for queue_id in range(found.read_queue_nums)}
