"""What the registry remembers of members on the network when their broker ends."""

from __future__ import annotations

import msgspec
from support.small_tables import add, new_table

from silomq.actors.registry.sides import Side
from silomq.store.groups.ack_file import About


def test_a_side_is_made_anew_from_its_ack_file() -> None:
    side = Side("g", 7, 3, clients=["b", "a"], topics={"t"}, has={("t", 1), ("t", 0)})
    about = msgspec.json.decode(msgspec.json.encode(side.about([("t", 1)])), type=About)
    found = Side.of(about, 3, 55)
    assert (found.group, found.session, found.number, found.queues) == ("g", 7, 55, [("t", 1)])
    assert (found.members, found.topics, found.has) == (["a", "b"], {"t"}, side.has)
    assert found.revoked == set(), "nothing is divided yet"
    assert found.about([("t", 1)]) == about


def test_clients_of_an_ended_broker_are_expected_back() -> None:
    table = new_table()
    add(table, "t", 2)
    side = Side("g", 7, 3, clients=["a", "b"], topics={"t"}, queues=[("u", 0)])
    assert side.holds(("t", 5))
    stays = side.leave(table)
    assert (stays.index, stays.members, stays.has) == (
        -1,
        ["a", "b"],
        {("t", 0), ("t", 1), ("u", 0)},
    )
    again = stays.succeed(8, 4)
    again.name(["b"], ["v"])
    assert (sorted(again.members), again.topics) == (["a", "b"], {"t", "v"})
    again.name(["b", "a"], ["v"])
    assert (sorted(again.members), again.expected, again.topics) == (["a", "b"], [], {"v"})


def test_what_a_side_is_to_give_back() -> None:
    table = new_table()
    add(table, "t", 3)
    side = Side("g", 7, 3, clients=["a"], topics={"t"})
    side.set_target({("t", 0)}, table)
    assert side.revoked == {("t", 1), ("t", 2)}
    assert side.asked_at
    assert side.has is not None
    side.has -= side.revoked
    side.settle()
    assert (side.revoked, side.asked_at) == (set(), 0.0)
    assert not side.holds(("t", 1))


def test_a_side_that_is_alone_is_asked_for_nothing() -> None:
    table = new_table()
    add(table, "t", 3)
    side = Side("g", 7, 3, clients=["a"], topics={"t"})
    side.set_target({("t", 0)}, table)
    assert side.asked_at
    assert side.succeed(8, 4).asked_at == 0.0, "the next broker has all its time"
    side.alone()
    assert (side.has, side.revoked, side.asked_at) == (None, set(), 0.0)
    assert side.holds(("t", 2))


def test_resets_survive_the_registry() -> None:
    side = Side("g", 7, 3, number=55, queues=[("t", 0)], resets={("t", 0): (54, 9)})
    about = msgspec.json.decode(msgspec.json.encode(side.about([("t", 0)])), type=About)
    assert Side.of(about, 3, 55).resets == {("t", 0): (54, 9)}
