"""Which queues each member of a group is to have.

Members that are clients of the store are divided among in the order in which they joined. Beside
members on the network, which divide for themselves, the order must be theirs: RocketMQ's clients
take all client ids of the group, sorted as Java sorts text. Members of the store have a client id
in that list. A topic to which no member on the network subscribes is not theirs to divide.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...store.groups.ack_file import Queue
from ...store.topics.topic_table import TopicTable
from .assignment import average, java_order
from .members import Member
from .sides import Side, queues_of


def divide(
    table: TopicTable, members: Sequence[Member], side: Side | None
) -> dict[int, set[Queue]]:
    """By session, the queues that each of the `members` is to have, who all read the same. `side`
    are the group's members on the network, None if there are none.
    """
    targets: dict[int, set[Queue]] = {member.session: set() for member in members}
    for topic in {topic for member in members for topic in member.about.filters}:
        readers = [member for member in members if topic in member.about.filters]
        queues = sorted(queues_of(table, topic))
        if not readers[0].exclusive:
            for reader in readers:
                targets[reader.session].update(queues)
            continue
        order = [reader.session for reader in readers]
        if side is not None and side.members and topic in side.topics:
            order = _merged(members, side)
        for session, ids in average(len(queues), order).items():
            if session in targets:
                targets[session].update(queues[ids.start : ids.stop])
    return targets


def _merged(members: Sequence[Member], side: Side) -> list[int]:
    """The sessions of members in the order of all client ids, with 0 for those of the side."""
    return [session for _, session in _named(members, side)]


def _named(members: Sequence[Member], side: Side) -> list[tuple[str, int]]:
    """All client ids in their order, each with its session, which is 0 for those of the side."""
    named = [(member.client_id, member.session) for member in members]
    named += [(client, 0) for client in side.members]
    return sorted(named, key=lambda one: java_order(one[0]))


def network_shares(
    table: TopicTable, members: Sequence[Member], side: Side
) -> list[tuple[str, int]]:
    """The client ids of a side in their order, and how many queues each takes."""
    named = _named(members, side)
    counts = [0] * len(named)
    for topic in side.topics:
        for place, ids in average(len(queues_of(table, topic)), range(len(named))).items():
            counts[place] += len(ids)
    return [
        (client, count)
        for (client, session), count in zip(named, counts, strict=True)
        if session == 0
    ]


def left_for(
    table: TopicTable, side: Side, targets: dict[int, set[Queue]], topics: set[str]
) -> set[Queue]:
    """The queues that members on the network are to have, beside the `targets` of the others, who
    read `topics`.
    """
    if not side.members:
        return set()
    taken = set[Queue]().union(*targets.values())
    # A client that commits in a topic to which it does not subscribe (a tool) may go on to.
    own = {queue for queue in side.queues if queue[0] not in topics}
    return own.union(*(queues_of(table, topic) for topic in side.topics)) - taken
