"""Consumer groups: their members, and which member reads which queue. A part of the registry.

The docstring of this room (`__init__.py`) says how a queue is revoked from one member and given to
another.

Each assignment is an ack file of its own (`store/groups/ack_file.py`), made before the member gets
its answer. So the next registry finds all members and their queues in the ack files. A member that
dies or is expelled loses its connection, and its queues are divided among the others at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import Assigned, Done, Joined, ResetAnswer, Revoke
from ...shm.protocol.requests import (
    AskGroup,
    AskGroups,
    Busy,
    DeleteGroup,
    GroupRequest,
    Join,
    Reset,
    Sync,
)
from ...store.commitlog.log import disk_full
from ...store.groups import ack_file
from ...store.groups.ack_file import KEPT, About, Queue
from ...store.names import retry_topic, validate_group
from ..actor import World
from .division import divide, left_for
from .group_configs import GroupConfigs
from .group_offsets import GroupProgress, broadcast_key
from .group_pages import GroupPages
from .group_starts import begin, check_offsets
from .kept_groups import KeptGroups
from .members import BROADCASTING, CLUSTERING, Member, Members
from .pops import Pops
from .refusals import illegal
from .sides import Side
from .stopped_members import ask_the_quiet
from .system_topics import SystemTopics

# Many members often join at once, and one division of the queues serves them all. It costs each
# member some requests, so the registry waits longer the more members there are.
_REBALANCE_DELAY_S = 0.02
_MEMBER_DELAY_S = 0.0005
_MOST_DELAY_S = 0.5
_REVOKE_AT_ONCE = 500  # queues named in one packet


class Groups:
    """All groups of the store. `expel` closes the connection of the session with that number.
    `notify` wakes a member, or the broker of a side, because there is news for it; `wake` a session
    with this number and index.

    Methods that take a request return its answer. They raise Refused, and IllegalMessage for a name
    that is not a group's.
    """

    def __init__(
        self,
        world: World,
        logger: Any,
        topics: SystemTopics,
        *,
        expel: Callable[[int], None],
        notify: Callable[[Member | Side], None],
        wake: Callable[[int, int], None],
        beat: Callable[[], None],
    ) -> None:
        """Takes over the groups of the registry before this one. `beat` is called in long loops."""
        self.table = world.table
        self.control = world.control
        self.settings = world.settings
        self.logger = logger
        self.topics = topics
        self.expel = expel
        self.notify = notify
        self.progress = GroupProgress(world, logger)
        self.configs = GroupConfigs(world.folders.config, logger)
        self.members = Members()
        self.kept = KeptGroups(
            self.table, self.members, self.progress, self.configs,
            notify=self.notify, changed=self._divide_soon, logger=logger,
        )  # fmt: skip
        self.pops = Pops(world, logger, self.progress, self.configs, self.members, wake=wake)
        parts = (self.members, self.progress, self.configs, self.kept)
        self.pages = GroupPages(self.table, *parts, pops=self.pops)
        self.due: dict[str, float] = {}  # group -> when to divide its queues anew
        self.save_at = time.monotonic()
        self.topics_seen = self.table.topic_count
        indexes = {s.number: s.index for s in world.sessions.values() if not s.closing}
        for reader in self.progress.take_over(indexes, beat):
            about = reader.about
            if about.model == KEPT:
                self.kept.adopt(reader, indexes[about.session])
                continue
            member = Member(about.session, indexes[about.session], about, reader.number)
            member.owned = set(about.queues)
            # Until they are divided anew: without a target all of them would be revoked.
            member.target = {one for one in member.owned if self.table.find(one[0]) is not None}
            self.members[about.session] = member
            self._divide_soon(about.group)

    # -- what clients ask

    def serve(
        self, session: int, index: int, request: GroupRequest
    ) -> tuple[Answer, tuple[int, ...]]:
        """The answer to a request of the session with this number and index, and descriptors for
        the client, which the caller closes.
        """
        member = self.members.get(session)
        if member is not None:
            member.hear(time.monotonic())
        match request:
            case Busy():
                return Done(), ()
            case Join():
                return self.join(session, index, request), ()
            case Sync():
                return self.sync(session, request)
            case AskGroups():
                return self.pages.groups(request), ()
            case AskGroup():
                return self.pages.group(request), ()
            case Reset():
                return self.reset(request), ()
            case DeleteGroup():
                return self.delete(request), ()

    def join(self, session: int, index: int, request: Join) -> Joined:
        """Makes the session a member of the group. Repeated, it only answers again.

        Refused if the group may not consume, if its members have another subscription, if a topic
        does not exist, or if another member has the same broadcasting instance.
        """
        group, model, instance = request.group, request.model, request.instance
        validate_group(group)
        if model not in (CLUSTERING, BROADCASTING):
            raise illegal(f"model {model!r}: {CLUSTERING} or {BROADCASTING}")
        config = self.configs.get(group)
        answer = Joined(retry_max_times=config.retry_max_times)
        if session in self.members:
            return answer
        if not config.consume_enable:
            raise illegal(f"group {group} may not consume (consumeEnable is false)")
        if model == BROADCASTING and not config.consume_broadcast_enable:
            raise illegal(f"group {group} may not broadcast (consumeBroadcastEnable is false)")
        filters: dict[str, tuple[str, str]] = {**request.filters}
        self.members.check_alike(group, model, filters)
        if model == CLUSTERING:
            self.pops.check_joining(group, self.kept.keeper_of(group))
            self.topics.open_system(retry_topic(group), config.retry_queue_nums)
            filters[retry_topic(group)] = ("TAG", "*")
        key = group if model == CLUSTERING else broadcast_key(group, instance, session)
        if model == BROADCASTING and instance:
            validate_group(instance)
            if self.members.of(key):
                raise illegal(f"group {group} has a broadcasting member {instance} already")
        side = self.kept.side_of(key)
        for topic in filters:
            begin(self.table, self.progress, key, topic, start=request.start, side=side)
        about = About(key, session, model, instance, filters, [])
        number = self.progress.assign(about, [], None)
        self.members[session] = Member(session, index, about, number, start=request.start)
        self._divide_soon(key)
        return answer

    def sync(self, session: int, request: Sync) -> tuple[Assigned | Revoke, tuple[int, ...]]:
        """Tells a member which queues to give back, or its newest assignment.

        The request says which queues the member has given back (`released`) and the number of the
        assignment that it has. Descriptors of an ack file come along only if there is a newer one.
        """
        member = self.members.get(session)
        if member is None:
            raise illegal("this session is in no consumer group")
        if request.have == member.number:
            released = set(request.released)
            lost = (member.owned - member.target) - released
            if lost:
                return Revoke(revoke=sorted(lost)[:_REVOKE_AT_ONCE]), ()
            if member.stale & released:
                member.stale -= released
                self._divide_soon(member.about.group)
            self._assign(member, member.owned - released)
        if request.have == member.number:
            return Assigned(number=member.number), ()
        fds = ack_file.hand_out(self.progress.folder, member.number)
        return Assigned(number=member.number), fds

    def reset(self, request: Reset) -> ResetAnswer:
        """Sets the offsets of a group in queues of a topic.

        The queues are first revoked from the members that have them. Until all are given back, the
        answer is `wait`, and the client repeats the request.
        """
        validate_group(request.group)
        group, topic, offsets = request.group, request.topic, request.offsets
        check_offsets(self.table, topic, offsets)
        queues = {(topic, queue_id) for queue_id in offsets}
        busy = False
        for member in self.members.of(group):
            if member.owned & queues:
                member.target = member.target - queues
                member.revoke(time.monotonic())
                self.notify(member)
                busy = True
        if busy:
            self.due[group] = time.monotonic() + 1.0  # in case the client does not ask again
            return ResetAnswer(wait=True)
        self.progress.reset(group, topic, offsets)
        self.pops.forget()
        self.kept.was_reset(group, topic, offsets)
        self._divide_soon(group)
        return ResetAnswer(wait=False)

    def delete(self, request: DeleteGroup) -> Done:
        """Deletes the settings of a group without members, and its offsets unless they are kept."""
        group = request.group
        keeper = self.kept.keeper_of(group)
        if self.members.of(group) or keeper is not None or self.pops.sessions_of(group):
            raise illegal(f"group {group} has members: stop them first")
        self.kept.forget(group)
        if not request.keep_offsets:
            self.progress.forget(group)
            self.pops.forget()
        self.configs.forget(group)
        self.save()
        return Done()

    # -- members

    def _assign(self, member: Member, kept: set[Queue]) -> None:
        """Gives the member those of its target queues that no other member owns, beside `kept`, in
        a new ack file. Then notifies the members that wait for a queue that became free.
        """
        group = member.about.group
        side = self.kept.side_of(group)
        taken: set[Queue] = set()
        if member.exclusive:
            for other in self.members.of(group):
                if other is not member:
                    taken |= other.owned
        if side is not None:
            taken |= {queue for queue in member.target if side.holds(queue)}
        owned = kept | (member.target - taken)
        member.settle()
        if owned == member.owned == kept:
            return  # a queue that is given back, and assigned again, needs a new ack file
        freed = member.owned - owned
        queues = sorted(owned)
        unknown = {q for q in owned - member.owned if not self.progress.knows(group, q)}
        for topic in {topic for topic, _ in unknown}:
            begin(self.table, self.progress, group, topic, start=member.start, side=side)
        topics = {topic: self.table.find(topic) for topic in {topic for topic, _ in queues}}
        ends = []
        for topic, queue_id in queues:
            found = topics[topic]
            assert found is not None, "topics that go are taken out of targets at once"
            ends.append(self.table.queue_word(found.slots[queue_id], "max_offset").load())
            self.control.watch(found.slots[queue_id])
        old = member.about
        about = About(old.group, old.session, old.model, old.instance, old.filters, queues)
        member.number = self.progress.assign(about, ends, member.number)
        member.about, member.owned = about, owned
        for other in self.members.of(about.group):
            if freed & other.target:
                self.notify(other)
        if side is not None and side.target is not None and freed & side.target:
            self.notify(side)

    def leave(self, session: int) -> None:
        """Removes a session that has ended from its group, and divides its queues soon."""
        self.kept.leave(session)
        self.pops.leave(session)
        member = self.members.pop(session, None)
        if member is None:
            return
        self.progress.retire(member.number)
        if member.about.model == BROADCASTING and not member.about.instance:
            self.progress.forget(member.about.group)  # no later session has this key
        else:
            self._divide_soon(member.about.group)

    # -- dividing

    def _divide_soon(self, group: str) -> None:
        if group not in self.due:
            delay = _REBALANCE_DELAY_S + len(self.members.of(group)) * _MEMBER_DELAY_S
            self.due[group] = time.monotonic() + min(_MOST_DELAY_S, delay)

    def topic_changed(self, topic: str, *, deleted: bool) -> None:
        """Divides the queues of a changed topic again, in all groups that read it.

        The queues of a deleted topic are revoked (`stale`), and groups are reset to the beginning:
        a new topic of the same name has new queues.
        """
        if deleted:
            self.progress.forget_topic(topic)
            self.pops.forget()
            self.kept.topic_deleted(topic)
        for group in self.kept.readers_of(topic):
            self._divide_soon(group)
        for member in self.members.values():
            if topic in member.about.filters:
                if deleted:
                    member.stale |= {queue for queue in member.owned if queue[0] == topic}
                    member.target = {queue for queue in member.target if queue[0] != topic}
                self._divide_soon(member.about.group)

    def _divide(self, group: str) -> None:
        """Sets the target of each member of a group, and notifies members that own other queues."""
        members = self.members.of(group)
        side = self.kept.side_of(group)
        targets = divide(self.table, members, side)
        if side is not None:
            self._divide_side(side, members, targets)
        for member in members:
            member.target = targets[member.session] - member.stale
            if member.owned - member.target:
                member.revoke(time.monotonic())
            if member.owned != member.target:
                self.notify(member)

    def _divide_side(
        self, side: Side, members: list[Member], targets: dict[int, set[Queue]]
    ) -> None:
        """Sets the target of a group's members on the network, and tells their broker who the other
        members are.
        """
        if not members and side.has is None:
            return
        if members:
            topics = {topic for member in members for topic in member.about.filters}
            side.set_target(left_for(self.table, side, targets, topics), self.table)
        elif side.index >= 0:
            side.alone()
        self.notify(side)

    def _notice_topics(self) -> None:
        """Divides again in groups that read a topic which was made since the last look."""
        for index in range(self.topics_seen, self.table.topic_count):
            name = self.table.topic_name(index)
            for group in self.members.readers_of(name) | self.kept.readers_of(name):
                self._divide_soon(group)
        self.topics_seen = self.table.topic_count

    def tick(self) -> None:
        """Divides queues and saves progress when that is due, and expels members that have not
        given back queues in time, or whose processes are stopped.
        """
        now = time.monotonic()
        self.pops.waits.tick()
        self._notice_topics()
        for group in [g for g, at in self.due.items() if at <= now]:
            del self.due[group]
            self._divide(group)
        for member, why in self.members.overdue(now, self.settings):
            self.logger.warning(
                "a consumer is expelled",
                why=why, group=member.about.group, session=member.session,
            )  # fmt: skip
            self.expel(member.session)
        self.kept.tick(2 * self.settings.consumer_release_timeout_ms / 1000)
        if now >= self.save_at:
            self.save()
            ask_the_quiet(self.members, self.progress, self.table, self.notify)

    def patience(self) -> float:
        """Seconds until a division, a save or the end of a lease is due, at least 0."""
        times = (*self.due.values(), self.save_at, self.pops.waits.due_at())
        return max(0.0, min(times) - time.monotonic())

    def save(self) -> None:
        """Saves the progress of all groups. A full disk is logged, and the next save tries again.
        Raises OSError for other failures.
        """
        self.save_at = time.monotonic() + self.settings.flush_consumer_offset_interval_ms / 1000
        try:
            self.progress.save()
        except OSError as error:
            if not disk_full(error):
                raise
            self.logger.error("cannot save consumer offsets; trying again", error=str(error))

    def stop(self) -> None:
        """Saves progress, and wakes all members. The ack files stay for the next registry."""
        self.save()
        for member in self.members.values():
            self.notify(member)
