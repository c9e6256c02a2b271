"""Members of consumer groups, for tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from support.harness import StoreProcess, eventually

from silomq import GroupConsumer, Producer

if TYPE_CHECKING:
    from silomq import MessageView

QUEUES = 8


def send(store: StoreProcess, topic: str, count: int, **more: Any) -> None:
    """Messages 0, 1, ... whose queue is their number modulo QUEUES; all dispatched."""
    with Producer(store.path, timeout=30.0) as producer:
        for i in range(count):
            producer.send_oneway(topic, b"%d" % i, queue=i % QUEUES, **more)
        producer.flush()
    store.await_dispatch()


def numbers(messages: list[MessageView]) -> list[int]:
    return [int(message.body) for message in messages]


def drain(*members: GroupConsumer, quiet_s: float = 0.3) -> list[list[int]]:
    """What each member gets until nothing has come for a while."""
    found: list[list[int]] = [[] for _ in members]
    last = time.monotonic()
    while time.monotonic() - last < quiet_s:
        for member, its in zip(members, found, strict=True):
            messages = member.poll(100, 0.01)
            its.extend(numbers(messages))
            if messages:
                last = time.monotonic()
    return found


def settle(*members: GroupConsumer, queues: int = QUEUES) -> None:
    """Polls until the members have `queues` queues of the topics between them, evenly."""

    def even() -> bool:
        for member in members:
            assert member.poll(1) == []
        shares = [sum(not t.startswith("%") for t, _ in m.assignment) for m in members]
        return sum(shares) == queues and max(shares) - min(shares) <= 1

    eventually(even, "the queues are divided", 5.0)


def member_of(
    store: StoreProcess, group: str, topic: str, *, auto_ack: bool = True
) -> GroupConsumer:
    return GroupConsumer(store.path, group, topic, start="earliest", auto_ack=auto_ack)


def rest(store: StoreProcess, group: str, topic: str) -> list[int]:
    """What another member still gets, without what waits to come again."""
    with member_of(store, group, topic) as other:
        return sorted(drain(other)[0])


def take(member: GroupConsumer, count: int) -> list[MessageView]:
    """`count` messages in one poll: a member that is alone gets all queues at once."""
    found = member.poll(count, 10.0)
    assert len(found) == count
    return found
