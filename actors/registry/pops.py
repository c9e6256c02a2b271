"""Popping: a group's members get messages of any queue for a while, and nobody divides the queues.

A popped message is leased (`store/groups/leases.py`). A member that neither acknowledges it nor
asks for more time loses it when its time ends, and the group's next pop hands it out again. Each
change is in the journal before it is answered (`popped_queues.py`). The registry hands out numbers
of messages only: members read the messages themselves.

A member that finds nothing may ask to be told. It gets a notice when a lease ends whose messages it
could get. New messages it sees by itself, as any consumer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from ...shm._words import Word
from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import Done
from ...shm.protocol.pop_answers import (
    Looked,
    LookedQueue,
    Popped,
    PoppedLease,
    Settled,
    SettledLease,
)
from ...shm.protocol.pops import AskModes, Look, Pop, PopRequest, SetMode, Settle, Settling
from ...shm.protocol.requests import Start
from ...store.groups.leases import Lease, QueueLeases
from ...store.names import validate_group
from ..actor import World
from .group_configs import GroupConfigs
from .group_offsets import GroupProgress
from .group_starts import begin
from .members import Members
from .pop_waits import PopWaits
from .popped_queues import BEGIN_SIZE, CHANGE_SIZE
from .refusals import illegal, unavailable
from .request_modes import ModesFile

#: How often it is looked for offsets that members have committed which do not pop (s).
_LOOK_S: Final = 1.0
#: A session pops for a group if it has done so in this time (s).
_ACTIVE_S: Final = 30.0
_ACKNOWLEDGED, _UNSEEN = -1, -2
#: The model of members that pop.
POP: Final = "pop"


class _Place(msgspec.Struct):
    """A topic that a group pops: its queues by id. `seen` are the numbers of the topic's entry
    `entry` for which this was made, and `least` the queues' first offsets at the last look.
    """

    group: str
    topic: str
    entry: memoryview
    seen: bytes
    queues: list[QueueLeases]
    ends: list[Word]
    begins: list[Word]
    least: list[int]
    turn: int = 0
    looked_at: float = 0.0
    keys: list[tuple[str, str, int]] = []


class Pops:
    """Serves what members ask who pop. Methods that take a request return its answer, and raise
    Refused, IllegalMessage and OSError.
    """

    def __init__(
        self,
        world: World,
        logger: Any,
        progress: GroupProgress,
        configs: GroupConfigs,
        members: Members,
        *,
        wake: Callable[[int, int], None],
    ) -> None:
        """`wake` is called with number and index of a session that waited."""
        self._table = world.table
        self._progress = progress
        self._popped = progress.popped
        self._configs = configs
        self._modes = ModesFile(world.folders.config, logger)
        self._members = members
        self._clock = self._popped.clock
        #: Who has found nothing, and waits.
        self.waits = PopWaits(self._clock, wake)
        self._places: dict[tuple[str, str], _Place] = {}
        self._active: dict[str, dict[int, float]] = {}

    def serve(self, session: int, index: int, request: PopRequest) -> Answer:
        """The answer to a request of the session with this number and index."""
        match request:
            case Pop():
                return self.pop(session, index, request)
            case Settle():
                return self.settle(request)
            case Look():
                return self.look(session, index, request)
            case SetMode():
                self._modes.set(request)
                return Done()
            case AskModes():
                return self._modes.answer()

    # -- who pops

    def sessions_of(self, group: str) -> list[int]:
        """The sessions that pop for a group now."""
        limit = time.monotonic() - _ACTIVE_S
        return [one for one, at in self._active.get(group, {}).items() if at > limit]

    def groups(self) -> list[str]:
        """The groups for which sessions have popped."""
        return list(self._active)

    def check_joining(self, group: str, keeper: int | None) -> None:
        """Raises Refused if others pop for a group than its broker, the session `keeper`."""
        if any(session != keeper for session in self.sessions_of(group)):
            raise illegal(f"group {group} has members that pop: stop them, and wait 30 s")

    def leave(self, session: int) -> None:
        """Forgets a session that has ended. Its leases run on."""
        for group, sessions in list(self._active.items()):
            sessions.pop(session, None)
            if not sessions:
                del self._active[group]
        self.waits.leave(session)

    def forget(self) -> None:
        """Looks at all topics and groups anew: some were deleted or reset."""
        self._places.clear()

    # -- requests

    def pop(self, session: int, index: int, request: Pop) -> Popped:
        """Settles what the request says, then leases messages."""
        place = self._place(request.group, request.topic, request.start)
        config = self._configs.get(request.group)
        if not config.consume_enable:
            raise illegal(f"group {request.group} may not consume (consumeEnable is false)")
        changes = len(request.settled) + 2 * request.most + len(place.queues)
        self._popped.reserve(CHANGE_SIZE * changes)
        now_ms = self._clock.now_ms()
        settled = [self._settle(request.group, one, now_ms) for one in request.settled]
        wanted = self._wanted(place, request.queue_id)
        leases = self._inherited(place, request, now_ms)
        left = request.most - sum(lease.mask.bit_count() for _, lease in leases)
        for queue_id in wanted if not leases else ():
            found = self._take(place, queue_id, request, left, now_ms)
            leases += [(queue_id, lease) for lease in found]
            left -= sum(lease.mask.bit_count() for lease in found)
            if left <= 0:
                break
        self._popped.publish()
        self._active.setdefault(request.group, {})[session] = time.monotonic()
        next_ms = 0 if leases else self._next_ms(place, wanted)
        if leases:
            self.waits.leased(place.group, place.topic, leases[-1][1].due_ms)
        elif request.wait:
            self.waits.add(place.group, place.topic, (session, index), next_ms)
        return Popped(
            leases=[_shown(queue_id, lease) for queue_id, lease in leases],
            left=self._left(place, wanted),
            next_ms=next_ms,
            now_ms=now_ms,
            retry_max_times=config.retry_max_times,
            settled=settled,
        )

    def settle(self, request: Settle) -> Settled:
        """Settles leases of a group, in any of its topics."""
        self._popped.reserve(2 * CHANGE_SIZE * len(request.settled))
        now_ms = self._clock.now_ms()
        settled = [self._settle(request.group, one, now_ms) for one in request.settled]
        self._popped.publish()
        return Settled(settled=settled)

    def look(self, session: int, index: int, request: Look) -> Looked:
        """What a pop would find now."""
        group, topic, now_ms = request.group, request.topic, self._clock.now_ms()
        validate_group(group)
        if request.start is not None:
            self._place(group, topic, request.start)
        entry = self._table.find(topic)
        slots = () if entry is None else entry.slots[: entry.read_queue_nums]
        committed = self._progress.committed(group, topic, len(slots))
        found, times = [], []
        for queue_id, slot in enumerate(slots):
            if request.queue_id not in (-1, queue_id):
                continue
            queue = self._popped.find((group, topic, queue_id))
            if queue is None:
                least = self._table.queue_word(slot, "min_offset").load()
                queue = QueueLeases(committed.get(queue_id, least))
            end = self._table.queue_word(slot, "max_offset").load()
            due = [(one.first, one.mask) for one in queue.leases.values() if one.due_ms <= now_ms]
            held = request.in_order and queue.is_held(now_ms)
            if (due or queue.next < end) and not held:
                found.append(LookedQueue(queue_id, queue.next, end, sorted(due)[:32]))
            times.append(queue.due_ms)
        next_ms = 0 if found else min(filter(None, times), default=0)
        if request.wait and not found:
            self.waits.add(group, topic, (session, index), next_ms)
        return Looked(queues=found, next_ms=next_ms)

    # -- leases

    def _take(
        self, place: _Place, queue_id: int, request: Pop, most: int, now_ms: int
    ) -> list[Lease]:
        """Leases messages of one queue: those that are due, then new ones."""
        queue, key = place.queues[queue_id], place.keys[queue_id]
        least = place.begins[queue_id].load()
        if least != place.least[queue_id]:  # clean has removed messages
            place.least[queue_id] = least
            self._popped.move(key, least)
        before = len(queue.leases)
        if request.in_order:
            leases = self._take_in_order(place, queue_id, request, most, now_ms)
        else:
            leases = self._take_any(place, queue_id, request, most, now_ms)
        self._popped.leases += len(queue.leases) - before
        return leases

    def _take_in_order(
        self, place: _Place, queue_id: int, request: Pop, most: int, now_ms: int
    ) -> list[Lease]:
        """One lease of a queue of which nothing else is leased."""
        queue, key = place.queues[queue_id], place.keys[queue_id]
        due_ms = now_ms + request.invisible_ms
        if queue.is_held(now_ms):
            return queue.held_by(request.attempt, now_ms) if request.attempt else []
        again = queue.take_due(now_ms, due_ms, most, request.attempt, in_order=True)
        if again is not None:
            return self._changed(key, *again)
        if not self._popped.may_lease:
            return []
        end = place.ends[queue_id].load()
        new = queue.take_new(end, now_ms, due_ms, most, request.attempt)
        return [] if new is None else self._changed(key, new)

    def _take_any(
        self, place: _Place, queue_id: int, request: Pop, most: int, now_ms: int
    ) -> list[Lease]:
        """Leases of a queue: what is due, then new messages."""
        queue, key = place.queues[queue_id], place.keys[queue_id]
        due_ms, end = now_ms + request.invisible_ms, place.ends[queue_id].load()
        leases: list[Lease] = []
        while most > 0 and not (request.single and leases):
            again = queue.take_due(now_ms, due_ms, most, request.attempt)
            if again is not None:
                leases += self._changed(key, *again)
            elif not self._popped.may_lease:
                break
            else:
                new = queue.take_new(end, now_ms, due_ms, most, request.attempt)
                if new is None:
                    break
                leases += self._changed(key, new)
            most -= leases[-1].mask.bit_count()
        return leases

    def _changed(self, key: tuple[str, str, int], *leases: Lease) -> list[Lease]:
        """Notes leases that have changed, of which the first is a new one. Returns that."""
        self._popped.change(key, *leases)
        return [leases[0]]

    def _settle(self, group: str, one: Settling, now_ms: int) -> SettledLease:
        key = (group, one.topic, one.queue_id)
        queue = self._popped.find(key)
        if queue is None:
            return SettledLease(0)
        name, before = (one.first, one.popped_ms), len(queue.leases)
        if one.after_ms == _ACKNOWLEDGED:
            done = queue.acknowledge(name, one.mask)
            if done is None:
                return SettledLease(0)
            self._popped.change(key, done[0])
            self._popped.leases += len(queue.leases) - before
            return SettledLease(done[1])
        due_ms = now_ms + max(0, one.after_ms)
        unseen = one.after_ms == _UNSEEN
        found = queue.postpone(name, one.mask, now_ms, due_ms, unseen=unseen)
        if found is None:
            return SettledLease(0)
        self._popped.change(key, *found)
        self._popped.leases += len(queue.leases) - before
        new = found[0]
        self.waits.leased(group, one.topic, new.due_ms)
        mask = new.mask << (new.first - one.first)
        return SettledLease(mask, new.first, new.popped_ms, new.due_ms)

    def _inherited(self, place: _Place, request: Pop, now_ms: int) -> list[tuple[int, Lease]]:
        """The leases that a killed registry has given to this very request."""
        keys = self._popped.inherited.pop(request.attempt, []) if request.attempt else []
        return [
            (key[2], lease)
            for key in dict.fromkeys(keys)
            if key[:2] == (place.group, place.topic) and key[2] < len(place.queues)
            for lease in place.queues[key[2]].held_by(request.attempt, now_ms)
        ]

    # -- places

    def _wanted(self, place: _Place, queue_id: int) -> Sequence[int]:
        """The queues of a request, in the order in which they are looked at."""
        count = len(place.queues)
        if queue_id >= count:
            raise illegal(f"topic {place.topic} has no queue {queue_id} to read")
        if queue_id >= 0:
            return (queue_id,)
        place.turn = turn = (place.turn + 1) % count
        return (*range(turn, count), *range(turn))

    def _left(self, place: _Place, wanted: Sequence[int]) -> int:
        ends, queues = place.ends, place.queues
        return sum(max(0, ends[one].load() - queues[one].next) for one in wanted)

    def _next_ms(self, place: _Place, wanted: Sequence[int]) -> int:
        """When the next lease of some queues ends, 0 if nothing is leased."""
        return min((due for one in wanted if (due := place.queues[one].due_ms)), default=0)

    def _place(self, group: str, topic: str, start: Literal["earliest", "latest"]) -> _Place:
        """A topic as a group pops it. Raises Refused for a topic that cannot be read."""
        place = self._places.get((group, topic))
        if place is None or place.entry != place.seen:
            place = self._places[group, topic] = self._make(group, topic, start)
        now = time.monotonic()
        if now - place.looked_at > _LOOK_S:
            place.looked_at = now
            self._members.check_nothing_assigned(group)
            self._look_at_commits(place)
        return place

    def _make(self, group: str, topic: str, start: Literal["earliest", "latest"]) -> _Place:
        validate_group(group)
        begin(self._table, self._progress, group, topic, start=Start(start), side=None)
        found = self._table.find(topic)
        assert found is not None, "begin refuses topics that are not there"
        count = found.read_queue_nums
        committed = self._progress.committed(group, topic, count)
        keys = [(group, topic, queue_id) for queue_id in range(count)]
        new = [key for key in keys if self._popped.find(key) is None]
        if new and self._popped.is_full():
            raise unavailable("too many queues are popped by all groups")
        self._popped.reserve(BEGIN_SIZE * len(new))
        for key in new:
            self._popped.begin(key, committed[key[2]])
        queues = [self._popped.find(key) for key in keys]
        entry = self._table.topic_numbers(found.index)
        slots = found.slots[:count]
        return _Place(
            group, topic, entry, bytes(entry),
            [queue for queue in queues if queue is not None],
            [self._table.queue_word(slot, "max_offset") for slot in slots],
            [self._table.queue_word(slot, "min_offset") for slot in slots],
            [-1] * count,
            keys=keys,
        )  # fmt: skip

    def _look_at_commits(self, place: _Place) -> None:
        """What was committed by members that do not pop is done."""
        living = self._progress.living.values()
        if any(reader.about.group == place.group for reader in living):
            count = len(place.queues)
            self._popped.reserve(CHANGE_SIZE * count)
            found = self._progress.committed(place.group, place.topic, count)
            for queue_id, offset in found.items():
                self._popped.move(place.keys[queue_id], offset)
            self._popped.publish()


def _shown(queue_id: int, lease: Lease) -> PoppedLease:
    return PoppedLease(
        queue_id, lease.first, lease.popped_ms, lease.due_ms, lease.mask, lease.times
    )
