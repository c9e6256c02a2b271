"""Members of the store and RocketMQ's clients divide the queues of a group alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_tables import add, new_table

from silomq.actors.registry.division import divide, left_for, network_shares
from silomq.actors.registry.members import CLUSTERING, Member
from silomq.actors.registry.sides import Side
from silomq.store.groups.ack_file import About, Queue


def member(session: int, *topics: str) -> Member:
    filters = dict.fromkeys(topics, ("TAG", "*"))
    return Member(session, session, About("g", session, CLUSTERING, "", filters, []), session)


def units(name: str) -> list[int]:
    """The UTF-16 code units of text: what Java compares."""
    data = name.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]


def allocated(name: str, names: list[str], queues: list[Queue]) -> list[Queue]:
    """What AllocateMessageQueueAveragely gives a client, written as RocketMQ has it."""
    ids = sorted(names, key=units)
    index, mod = ids.index(name), len(queues) % len(ids)
    size = len(queues) // len(ids) + (1 if mod > 0 and index < mod else 0)
    size = max(1, size) if len(queues) <= len(ids) else size
    start = index * size if mod > 0 and index < mod else index * size + mod
    return [queues[start + i] for i in range(min(size, len(queues) - start))]


@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.lists(st.text(max_size=6), min_size=1, max_size=5, unique=True),
)
def test_all_members_together_have_each_queue_once(
    count: int, locals_: int, clients: list[str]
) -> None:
    table = new_table()
    add(table, "t", count)
    queues = [("t", i) for i in range(count)]
    members = [member(session, "t") for session in range(1, locals_ + 1)]
    side = Side("g", 99, 0, clients=clients, topics={"t"})
    targets = divide(table, members, side)
    names = [*clients, *(one.client_id for one in members)]
    remote = {client: allocated(client, names, queues) for client in clients}
    found = [queue for share in (*targets.values(), *remote.values()) for queue in share]
    assert sorted(found) == queues
    theirs = {queue for share in remote.values() for queue in share}
    assert left_for(table, side, targets, {"t"}) == theirs
    shares = {client: len(share) for client, share in remote.items()}
    assert dict(network_shares(table, members, side)) == shares


def test_a_topic_of_one_kind_is_its_own() -> None:
    table = new_table()
    for topic in ("both", "store", "network"):
        add(table, topic)
    side = Side("g", 99, 0, clients=["a@1"], topics={"both", "network"}, queues=[("tool", 0)])
    members = [member(1, "both", "store")]
    targets = divide(table, members, side)
    assert {queue for queue in targets[1] if queue[0] == "store"} == {
        ("store", i) for i in range(4)
    }
    left = left_for(table, side, targets, {"both", "store"})
    assert {queue for queue in left if queue[0] != "both"} == {
        ("tool", 0),
        *(("network", i) for i in range(4)),
    }
    assert sorted(q for q in left | targets[1] if q[0] == "both") == [("both", i) for i in range(4)]


@pytest.mark.parametrize("side", [None, Side("g", 9, 0, topics={"t"})])
def test_without_members_on_the_network_all_is_as_ever(side: Side | None) -> None:
    table = new_table()
    add(table, "t")
    targets = divide(table, [member(9, "t"), member(10, "t")], side)
    assert targets == {9: {("t", 0), ("t", 1)}, 10: {("t", 2), ("t", 3)}}
