"""Leases against a plain model: each message is new, leased, due or done, and never lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.groups.leases import LEASE_MOST, MOST_LEASES, Lease, QueueLeases


@dataclass
class Message:
    """One message of the model: when its lease ends, by which name it is leased, how often it was
    handed out. Without a name it is done, or was never handed out.
    """

    due_ms: int = 0
    name: tuple[int, int] | None = None
    times: int = 0
    done: bool = False


@dataclass
class Model:
    """The same with one entry for each message."""

    queue: QueueLeases = field(default_factory=lambda: QueueLeases(0))
    messages: list[Message] = field(default_factory=list)
    names: list[tuple[int, int]] = field(default_factory=list)
    now_ms: int = 1000

    def bits(self, lease: Lease) -> list[int]:
        return [lease.first + n for n in range(LEASE_MOST) if lease.mask >> n & 1]

    def note(self, lease: Lease, *, times: int | None = None) -> None:
        """A lease was made: all its messages could be had, and are its own now."""
        assert lease.name not in self.names, "a name is used once"
        assert lease.popped_ms < lease.due_ms
        self.names.append(lease.name)
        for at in self.bits(lease):
            message = self.messages[at]
            message.name, message.due_ms = lease.name, lease.due_ms
            message.times = message.times + 1 if times is None else times
            assert message.times == lease.times

    def check(self) -> None:
        queue = self.queue
        leased = {at: lease for lease in queue.leases.values() for at in self.bits(lease)}
        model = {n: m for n, m in enumerate(self.messages[: queue.next]) if not m.done}
        assert set(leased) == set(model), "what is not done is leased or due"
        for at, lease in leased.items():
            assert (lease.name, lease.due_ms) == (model[at].name, model[at].due_ms)
        assert queue.done == min(model, default=queue.next)
        assert queue.due_ms == min((lease.due_ms for lease in leased.values()), default=0)

    def pop(self, most: int, invisible_ms: int, *, in_order: bool = False) -> None:
        queue, now, due = self.queue, self.now_ms, self.now_ms + invisible_ms
        waiting = [n for n, m in enumerate(self.messages) if m.name and m.due_ms <= now]
        again = queue.take_due(now, due, most, 0, in_order=in_order)
        assert (again is not None) == bool(waiting), "due messages come again, and no others"
        if again is not None:
            assert set(self.bits(again[0])) <= set(waiting)
            assert again[0].mask.bit_count() <= most
            if in_order:
                assert again[0].first == waiting[0]
            self.note(again[0])
            return
        new = queue.take_new(len(self.messages), now, due, most, 0)
        if new is not None:
            assert 0 < new.mask.bit_count() <= most
            self.note(new)

    def settle(self, which: int, mask: int, after_ms: int) -> None:
        if not self.names:
            return
        name = self.names[which % len(self.names)]
        own = [n for n, m in enumerate(self.messages) if m.name == name]
        own = [n for n in own if mask >> (n - name[0]) & 1]
        if after_ms < 0:
            found = self.queue.acknowledge(name, mask)
            assert (found is not None) == bool(own), "only the lease's own messages are moved"
            for at in own:
                self.messages[at].name, self.messages[at].done = None, True
            return
        moved = self.queue.postpone(
            name, mask, self.now_ms, self.now_ms + after_ms, unseen=after_ms == 0
        )
        assert (moved is not None) == bool(own)
        if moved is not None:
            assert self.bits(moved[0]) == own
            self.note(moved[0], times=self.messages[own[0]].times - (after_ms == 0))

    def move(self, offset: int) -> None:
        offset = min(offset, len(self.messages))
        self.queue.move(offset)
        for message in self.messages[:offset]:
            message.name, message.done = None, True


MASKS = st.one_of(st.integers(1, 2**32 - 1), st.integers(0, 31).map(lambda n: 1 << n))
STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 70)),
    st.tuples(st.just("pop"), st.integers(1, 40), st.integers(1, 30)),
    st.tuples(st.just("pop in order"), st.integers(1, 40), st.integers(1, 30)),
    st.tuples(st.just("settle"), st.integers(0, 50), MASKS, st.integers(-20, 20)),
    st.tuples(st.just("sleep"), st.integers(0, 20)),
    st.tuples(st.just("move"), st.integers(0, 100)),
)


@given(st.lists(STEPS, max_size=60))
def test_leases_are_a_plain_table_of_messages(steps: list[tuple[object, ...]]) -> None:
    model = Model()
    for step in steps:
        match step:
            case "put", int(count):
                model.messages += [Message() for _ in range(count)]
            case "pop", int(most), int(ms):
                model.pop(most, ms)
            case "pop in order", int(most), int(ms):
                model.pop(most, ms, in_order=True)
            case "settle", int(which), int(mask), int(after):
                model.settle(which, mask, after)
            case "sleep", int(ms):
                model.now_ms += ms
            case "move", int(offset):
                model.move(offset)
        model.check()


def test_a_receipt_of_an_earlier_hand_out_moves_nothing() -> None:
    queue = QueueLeases(5)
    old = queue.take_new(100, 1000, 1010, 32, 0)
    assert old is not None
    name = old.name
    assert queue.take_due(1009, 1020, 32, 0) is None, "not before its time"
    found = queue.take_due(1010, 1020, 32, 0)
    assert found is not None
    assert (found[0].first, found[0].times) == (5, 2)
    assert queue.acknowledge(name, 1) is None
    assert queue.postpone(name, 1, 1011, 1012) is None
    assert queue.done == 5


def test_a_late_acknowledgement_counts_until_the_message_is_handed_out_again() -> None:
    queue = QueueLeases(0)
    lease = queue.take_new(3, 1000, 1010, 3, 0)
    assert lease is not None
    assert queue.acknowledge(lease.name, 0b101) is not None
    found = queue.take_due(5000, 6000, 32, 0)
    assert found is not None
    assert (found[0].first, found[0].mask, queue.done) == (1, 1, 1)


def test_what_was_not_seen_is_not_counted() -> None:
    queue = QueueLeases(0)
    lease = queue.take_new(3, 1000, 9000, 3, 0)
    assert lease is not None
    assert queue.postpone(lease.name, 0b100, 1000, 1000, unseen=True) is not None
    again = queue.take_due(1002, 9000, 32, 0)
    assert again is not None
    assert (again[0].first, again[0].times) == (2, 1)


def test_too_many_leases_stop_new_messages_only() -> None:
    queue = QueueLeases(0)
    for _ in range(MOST_LEASES):
        assert queue.take_new(1 << 40, 1000, 1010, 1, 0) is not None
    assert queue.take_new(1 << 40, 1000, 1010, 1, 0) is None
    assert queue.take_due(1010, 1020, 1, 0) is not None


def test_leases_behind_a_shortened_queue_are_dropped() -> None:
    queue = QueueLeases(0)
    for _ in range(3):
        queue.take_new(96, 1000, 1010, 32, 0)
    assert queue.bound(40)
    assert (queue.next, queue.done, len(queue.leases)) == (40, 0, 2)
    assert not queue.bound(40)
    assert [lease.mask for lease in queue.leases.values()] == [2**32 - 1, 0xFF]


@pytest.mark.parametrize("ended", [True, False])
def test_the_heap_of_times_does_not_grow_with_leases_that_have_ended(*, ended: bool) -> None:
    queue = QueueLeases(0)
    for _ in range(5000):
        lease = queue.take_new(1 << 40, 1000, 100_000, 32, 0)
        assert lease is not None
        if ended:
            queue.acknowledge(lease.name, 2**32 - 1)
    assert len(queue._times) <= (300 if ended else 5000)
