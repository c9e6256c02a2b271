"""The registry's answers about consumer groups, one page for each request."""

from __future__ import annotations

from ...shm.protocol.answers import (
    GroupMember,
    GroupPage,
    GroupQueue,
    GroupsPage,
)
from ...shm.protocol.requests import AskGroup, AskGroups
from ...store.topics.topic_table import TopicTable
from .division import network_shares
from .group_configs import GroupConfigs
from .group_offsets import GroupProgress
from .kept_groups import KeptGroups
from .members import NETWORK, Members
from .pops import POP, Pops
from .refusals import illegal

_PAGE = 200
# A page of queues costs a walk over all queues of all groups, so it is large.
_PAGE_QUEUES = 10_000


class GroupPages:
    """Reads what the registry knows of groups, and changes nothing."""

    def __init__(
        self,
        table: TopicTable,
        members: Members,
        progress: GroupProgress,
        configs: GroupConfigs,
        kept: KeptGroups,
        *,
        pops: Pops,
    ) -> None:
        self._table = table
        self._members = members
        self._progress = progress
        self._configs = configs
        self._kept = kept
        self._pops = pops

    def groups(self, request: AskGroups) -> GroupsPage:
        """Up to 200 groups, in the order of their names, from the first name after `request.after`.
        Each comes with the number of its members.
        """
        counts = dict.fromkeys((*self._configs, *(key[0] for key in self._progress.known)), 0)
        for member in self._members.values():
            counts[member.about.group] = counts.get(member.about.group, 0) + 1
        for side in self._kept:
            counts[side.group] = counts.get(side.group, 0) + len(side.members)
        for group in self._pops.groups():
            counts[group] = counts.get(group, 0) + len(self._pops.sessions_of(group))
        names = sorted(name for name in counts if name > request.after)
        page = {name: counts[name] for name in names[:_PAGE]}
        return GroupsPage(groups=page, more=len(names) > _PAGE)

    def group(self, request: AskGroup) -> GroupPage:
        """A group's progress in up to 10,000 queues, and up to 200 of its members.

        Queues are ordered by topic and queue id; the page begins at number `request.after`. Raises
        Refused for an unknown group.
        """
        group, after = request.group, request.after
        offsets = self._progress.now(group)
        members = self._members.of(group)
        side = self._kept.side_of(group)
        if not offsets and not members and side is None and group not in self._configs:
            raise illegal(f"there is no consumer group {group}")
        shown = [
            GroupMember(m.session, m.about.model, m.about.instance, len(m.owned)) for m in members
        ]
        shown += [GroupMember(session, POP, "", 0) for session in self._pops.sessions_of(group)]
        owner = {queue: member.session for member in members for queue in member.owned}
        if side is not None:
            shares = network_shares(self._table, members, side)
            shown += [GroupMember(side.session, NETWORK, name, n) for name, n in shares]
            owner |= {queue: side.session for queue in offsets if side.holds(queue)}
        page = sorted(offsets)[after : after + _PAGE_QUEUES]
        slots = {topic: self._slots(topic) for topic in {topic for topic, _ in page}}
        queues = [
            GroupQueue(
                *queue, offsets[queue], self._end(slots[queue[0]], queue[1]), owner.get(queue, 0)
            )
            for queue in page
        ]
        leased, oldest_ms = self._progress.popped.leased(group)
        return GroupPage(
            queues=queues,
            members=shown[:_PAGE],
            more=len(offsets) > after + _PAGE_QUEUES,
            leased=leased,
            oldest_ms=oldest_ms,
        )

    def _slots(self, topic: str) -> tuple[int, ...]:
        """The slots of a topic's queues; none if it does not exist."""
        found = self._table.find(topic)
        return () if found is None else found.slots

    def _end(self, slots: tuple[int, ...], queue_id: int) -> int:
        """The queue's `max_offset`; 0 for a queue that does not exist."""
        if queue_id >= len(slots):
            return 0
        return self._table.queue_word(slots[queue_id], "max_offset").load()
