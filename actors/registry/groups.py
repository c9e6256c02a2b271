"""Consumer groups: who is in one, and who reads which queue. A part of the registry.

Queues are given out by RocketMQ's averaging, here by the store and not by each client. A queue that
moves goes in two steps: its member hears of it (by a word it sleeps on), stops, and says so; only
then the next one gets it. So no two members ever have the same queue at the same time. A member
that dies is noticed by its socket, and its queues are free at once; one that does not answer in
time is put out. Each assignment is an ack file of its own (`store/groups/ack_file.py`), made before
the member hears of it: what a registry knows of its members its successor finds there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...store.commitlog.log import disk_full
from ...store.groups import ack_file
from ...store.groups.ack_file import About, Queue
from ...store.names import retry_topic, validate_group
from ...store.status import PutMessageStatus
from ..actor import World
from .assignment import average
from .group_configs import GroupConfigs
from .group_offsets import GroupProgress, broadcast_key
from .system_topics import SystemTopics
from .topics import Refused

CLUSTERING, BROADCASTING = "clustering", "broadcasting"
# Members often come many at once: one division of the queues serves all. It costs each member some
# requests, so the more there are, the longer it waits.
_REBALANCE_DELAY_S = 0.02
_MEMBER_DELAY_S = 0.0005
_MOST_DELAY_S = 0.5
_REVOKE_AT_ONCE = 500  # queues named in one packet
_PAGE = 200


@dataclass
class Member:
    """A session that reads as part of a group. `number` is its ack file's."""

    session: int
    index: int
    about: About
    number: int
    owned: set[Queue] = field(default_factory=set)
    target: set[Queue] = field(default_factory=set)
    stale: set[Queue] = field(default_factory=set)  # of topics that were deleted
    asked_at: float = 0.0  # monotonic seconds; 0 = nothing is asked back

    @property
    def exclusive(self) -> bool:
        return self.about.model == CLUSTERING


def _refuse(why: str) -> Refused:
    return Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)


class Groups:
    """All groups of the store. `expel` closes the connection of a session."""

    def __init__(
        self, world: World, logger: Any, topics: SystemTopics, expel: Callable[[int], None]
    ) -> None:
        self.table = world.table
        self.control = world.control
        self.settings = world.settings
        self.logger = logger
        self.topics = topics
        self.expel = expel
        self.progress = GroupProgress(world, logger)
        self.configs = GroupConfigs(world.folders.config, logger)
        self.members: dict[int, Member] = {}
        self.due: dict[str, float] = {}  # group -> when to divide its queues anew
        self.save_at = time.monotonic()
        self.topics_seen = self.table.topic_count
        indexes = {s.number: s.index for s in world.sessions.values() if not s.closing}
        for reader in self.progress.take_over(indexes):
            about = reader.about
            member = Member(about.session, indexes[about.session], about, reader.number)
            member.owned = set(about.queues)
            self.members[about.session] = member
            self._divide_soon(about.group)

    # -- what clients ask

    def serve(
        self, session: int, index: int, request: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Answers a request: (answer, descriptors for the client, which the caller closes). Raises
        Refused, IllegalMessage.
        """
        match request["do"]:
            case "join":
                return self.join(session, index, request), ()
            case "sync":
                return self.sync(session, request)
            case "leave":
                self.leave(session)
                return {"ok": True}, ()
            case "groups":
                return self.page(str(request["after"])), ()
            case "group":
                return self.show(str(request["group"]), int(request["after"])), ()
            case "reset":
                offsets = {int(queue): int(at) for queue, at in request["offsets"].items()}
                return self.reset(str(request["group"]), str(request["topic"]), offsets), ()
            case other:
                assert other == "delete group"
                return self.delete(str(request["group"])), ()

    def join(self, session: int, index: int, request: dict[str, Any]) -> dict[str, Any]:
        """Makes the session a member. `start` is where a group begins that is new to a topic."""
        group, model = str(request["group"]), str(request["model"])
        instance = str(request.get("instance", ""))
        validate_group(group)
        if model not in (CLUSTERING, BROADCASTING):
            raise _refuse(f"model {model!r}: {CLUSTERING} or {BROADCASTING}")
        filters = {str(t): (str(f[0]), str(f[1])) for t, f in request["filters"].items()}
        config = self.configs.get(group)
        answer = {"ok": True, "retry_max_times": config.retry_max_times}
        if session in self.members:
            return answer
        if not config.consume_enable:
            raise _refuse(f"group {group} may not consume (consumeEnable is false)")
        if model == BROADCASTING and not config.consume_broadcast_enable:
            raise _refuse(f"group {group} may not broadcast (consumeBroadcastEnable is false)")
        self._check_alike(group, model, filters)
        if model == CLUSTERING:
            self.topics.open_system(retry_topic(group), config.retry_queue_nums)
            filters[retry_topic(group)] = ("TAG", "*")
        key = group if model == CLUSTERING else broadcast_key(group, instance, session)
        if model == BROADCASTING and instance:
            validate_group(instance)
            if any(m.about.group == key for m in self.members.values()):
                raise _refuse(f"group {group} has a broadcasting member {instance} already")
        for topic in filters:
            self._begin(key, topic, request["start"])
        about = About(key, session, model, instance, filters, [])
        number = self.progress.assign(about, [], None)
        self.members[session] = Member(session, index, about, number)
        self._divide_soon(key)
        return answer

    def _check_alike(self, group: str, model: str, filters: dict[str, tuple[str, str]]) -> None:
        """RocketMQ lets the last one win, and loses messages between members that differ."""
        for member in self.members.values():
            if member.about.group != group:
                continue
            theirs = {t: f for t, f in member.about.filters.items() if t != retry_topic(group)}
            if member.about.model != model or theirs != filters:
                raise _refuse(
                    f"group {group} has members that read {theirs} ({member.about.model}), not "
                    f"{filters} ({model}): stop them first, or use a group of another name"
                )

    def _begin(self, key: str, topic: str, start: dict[str, Any]) -> None:
        """A group that knows the topic starts new queues at their beginning: nothing is missed."""
        found = self.table.find(topic)
        if found is None:
            raise _refuse(f"topic {topic} does not exist: create it (silo topics create)")
        if not found.perm & 4:
            raise _refuse(f"topic {topic} may not be read (perm {found.perm})")
        last = start["from"] == "latest" and not self.progress.has_topic(key, topic)
        offsets = start.get("offsets", {}).get(topic, {})
        for queue_id, slot in enumerate(found.slots[: found.read_queue_nums]):
            if self.progress.knows(key, (topic, queue_id)):
                continue
            word = self.table.queue_word(slot, "max_offset" if last else "min_offset")
            at = int(offsets.get(str(queue_id), word.load()))
            self.progress.begin(key, (topic, queue_id), max(0, at))

    def sync(self, session: int, request: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
        """What a member has to do: give back the queues named in `revoke`, or take the assignment
        whose ack file's descriptors come with the answer (none: it has the newest).
        """
        member = self.members.get(session)
        if member is None:
            raise _refuse("this session is in no consumer group")
        if request["have"] == member.number:
            released = {(str(t), int(q)) for t, q in request.get("released", ())}
            lost = (member.owned - member.target) - released
            if lost:
                return {"ok": True, "revoke": sorted(lost)[:_REVOKE_AT_ONCE]}, ()
            if member.stale & released:
                member.stale -= released
                self._divide_soon(member.about.group)
            self._assign(member, member.owned - released)
        if request["have"] == member.number:
            return {"ok": True, "number": member.number}, ()
        fds = ack_file.hand_out(self.progress.folder, member.number)
        return {"ok": True, "number": member.number}, fds

    def _assign(self, member: Member, kept: set[Queue]) -> None:
        """Gives the member what is free of what it is to have; whom that concerns hears of it."""
        taken: set[Queue] = set()
        if member.exclusive:
            for other in self._of(member.about.group):
                if other is not member:
                    taken |= other.owned
        owned = kept | (member.target - taken)
        member.asked_at = 0.0
        if owned == member.owned:
            return
        freed = member.owned - owned
        queues = sorted(owned)
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
        for other in self._of(about.group):
            if freed & other.target:
                self.table.notify(other.index)

    def leave(self, session: int) -> None:
        """The session is over, however it ended."""
        member = self.members.pop(session, None)
        if member is None:
            return
        self.progress.retire(member.number)
        if member.about.model == BROADCASTING and not member.about.instance:
            self.progress.forget(member.about.group)  # nobody can ask for it again
        else:
            self._divide_soon(member.about.group)

    def _of(self, group: str) -> list[Member]:
        """The members of a group in the order in which they joined."""
        found = [m for m in self.members.values() if m.about.group == group]
        return sorted(found, key=lambda m: m.session)

    # -- dividing

    def _divide_soon(self, group: str) -> None:
        if group not in self.due:
            delay = _REBALANCE_DELAY_S + len(self._of(group)) * _MEMBER_DELAY_S
            self.due[group] = time.monotonic() + min(_MOST_DELAY_S, delay)

    def topic_changed(self, topic: str, *, deleted: bool) -> None:
        """A topic has other queues or permissions than before, or is gone. One of the same name has
        new queues, so members give back those of the old one, and groups begin at its beginning.
        """
        if deleted:
            self.progress.forget_topic(topic)
        for member in self.members.values():
            if topic in member.about.filters:
                if deleted:
                    member.stale |= {queue for queue in member.owned if queue[0] == topic}
                    member.target = {queue for queue in member.target if queue[0] != topic}
                self._divide_soon(member.about.group)

    def _divide(self, group: str) -> None:
        members = self._of(group)
        targets: dict[int, set[Queue]] = {m.session: set() for m in members}
        for topic in sorted({t for m in members for t in m.about.filters}):
            found = self.table.find(topic)
            if found is None or not found.perm & 4:
                continue
            readers = [m for m in members if topic in m.about.filters]
            if readers[0].exclusive:
                for session, ids in average(
                    found.read_queue_nums, [m.session for m in readers]
                ).items():
                    targets[session] |= {(topic, i) for i in ids}
            else:
                for reader in readers:
                    targets[reader.session] |= {(topic, i) for i in range(found.read_queue_nums)}
        for member in members:
            member.target = targets[member.session] - member.stale
            if member.owned - member.target and not member.asked_at:
                member.asked_at = time.monotonic()
            if member.owned != member.target:
                self.table.notify(member.index)

    def _notice_topics(self) -> None:
        """A topic that was deleted and is made again has queues for who still reads that name."""
        for index in range(self.topics_seen, self.table.topic_count):
            name = self.table.topic_name(index)
            for group in {m.about.group for m in self.members.values() if name in m.about.filters}:
                self._divide_soon(group)
        self.topics_seen = self.table.topic_count

    def tick(self) -> None:
        """Whatever is due: dividing queues, putting out who does not answer, saving."""
        now = time.monotonic()
        self._notice_topics()
        for group in [g for g, at in self.due.items() if at <= now]:
            del self.due[group]
            self._divide(group)
        patience = self.settings.consumer_release_timeout_ms / 1000
        for member in list(self.members.values()):
            if member.asked_at and now - member.asked_at > patience:
                self.logger.warning(
                    "a consumer did not give back its queues in time: it is put out",
                    group=member.about.group,
                    session=member.session,
                )
                self.expel(member.session)
        if now >= self.save_at:
            self.save()

    def patience(self) -> float:
        """Seconds until something may be due."""
        return max(0.0, min([*self.due.values(), self.save_at]) - time.monotonic())

    def save(self) -> None:
        self.save_at = time.monotonic() + self.settings.flush_consumer_offset_interval_ms / 1000
        try:
            self.progress.save()
        except OSError as error:
            if not disk_full(error):
                raise
            self.logger.error("cannot save consumer offsets; trying again", error=str(error))

    def stop(self) -> None:
        """The registry stops, and with it the store, or only this process: files say the rest."""
        self.save()
        for member in self.members.values():
            self.table.notify(member.index)

    # -- administration

    def page(self, after: str) -> dict[str, Any]:
        """Names of up to 200 groups behind `after`, in order, with how many members each has."""
        counts = dict.fromkeys((*self.configs, *(k[0] for k in self.progress.known)), 0)
        for member in self.members.values():
            counts[member.about.group] = counts.get(member.about.group, 0) + 1
        names = sorted(name for name in counts if name > after)
        page = names[:_PAGE]
        return {"ok": True, "groups": {n: counts[n] for n in page}, "more": len(names) > _PAGE}

    def show(self, group: str, after: int) -> dict[str, Any]:
        """A group's progress: 200 queues from number `after` on, by topic and queue id; who reads
        them.
        """
        offsets = self.progress.now(group)
        members = self._of(group)
        if not offsets and not members and group not in self.configs:
            raise _refuse(f"there is no consumer group {group}")
        owner = {queue: m.session for m in members for queue in m.owned}
        rows = []
        for topic, queue_id in sorted(offsets)[after : after + _PAGE]:
            found = self.table.find(topic)
            slot = found.slots[queue_id] if found and queue_id < len(found.slots) else -1
            most = self.table.queue_word(slot, "max_offset").load() if slot >= 0 else 0
            row = [topic, queue_id, offsets[topic, queue_id], most, owner.get((topic, queue_id), 0)]
            rows.append(row)
        more = len(offsets) > after + _PAGE
        who = [[m.session, m.about.model, m.about.instance, len(m.owned)] for m in members[:_PAGE]]
        return {"ok": True, "queues": rows, "members": who, "more": more}

    def reset(self, group: str, topic: str, offsets: dict[int, int]) -> dict[str, Any]:
        """Puts a group elsewhere in a topic. Members give the queues back first: until they have,
        the answer says `wait`, and the request is to be repeated.
        """
        queues = {(topic, queue_id) for queue_id in offsets}
        found = self.table.find(topic)
        if found is None or max(offsets) >= len(found.slots) or min(offsets) < 0:
            raise _refuse(f"topic {topic} has no queue {max(offsets)}")
        for queue_id, offset in offsets.items():
            slot = found.slots[queue_id]
            low = self.table.queue_word(slot, "min_offset").load()
            high = self.table.queue_word(slot, "max_offset").load()
            if not low <= offset <= high:
                raise _refuse(
                    f"queue {queue_id} of {topic}: offset {offset}, it has {low} to {high}"
                )
        busy = False
        for member in self._of(group):
            if member.owned & queues:
                member.target = member.target - queues
                member.asked_at = member.asked_at or time.monotonic()
                self.table.notify(member.index)
                busy = True
        if busy:
            self.due[group] = time.monotonic() + 1.0  # in case the asker does not come again
            return {"ok": True, "wait": True}
        self.progress.reset(group, topic, offsets)
        self._divide_soon(group)
        return {"ok": True, "wait": False}

    def delete(self, group: str) -> dict[str, Any]:
        """Forgets a group without members: its offsets and how it consumes."""
        if self._of(group):
            raise _refuse(f"group {group} has members: stop them first")
        self.progress.forget(group)
        self.configs.forget(group)
        self.save()
        return {"ok": True}
