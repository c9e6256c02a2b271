"""The registry's memory of the members of consumer groups."""

from __future__ import annotations

import pytest

from silomq.actors.registry.members import BROADCASTING, CLUSTERING, Member, Members
from silomq.actors.registry.refusals import Refused
from silomq.store.groups.ack_file import About
from silomq.store.names import retry_topic


def members(*wanted: tuple[int, str, str]) -> Members:
    """Members (session, group, topic) that read all messages, and their groups' retry topics."""
    found = Members()
    for session, group, topic in wanted:
        filters = {topic: ("TAG", "*"), retry_topic(group): ("TAG", "*")}
        about = About(group, session, CLUSTERING, "", filters, [])
        found[session] = Member(session, session, about, number=session)
    return found


def test_members_of_a_group_come_in_the_order_in_which_they_joined() -> None:
    some = members((5, "g", "t"), (3, "g", "t"), (4, "other", "t"))
    assert [member.session for member in some.of("g")] == [3, 5]
    assert some.of("nobody") == []


def test_groups_that_read_a_topic() -> None:
    some = members((1, "a", "t"), (2, "b", "t"), (3, "c", "u"))
    assert some.readers_of("t") == {"a", "b"}
    assert some.readers_of(retry_topic("c")) == {"c"}


def test_a_member_must_read_what_the_others_of_its_group_read() -> None:
    some = members((1, "g", "t"))
    some.check_alike("g", CLUSTERING, {"t": ("TAG", "*")})
    some.check_alike("other", BROADCASTING, {"u": ("SQL92", "a = 1")})
    for model, filters in (
        (BROADCASTING, {"t": ("TAG", "*")}),
        (CLUSTERING, {"t": ("TAG", "a")}),
        (CLUSTERING, {"t": ("TAG", "*"), "u": ("TAG", "*")}),
    ):
        with pytest.raises(Refused, match="group g has members that read"):
            some.check_alike("g", model, filters)


def one() -> Member:
    (member,) = members((1, "g", "t")).values()
    return member


def test_a_member_has_a_minute_to_give_back_while_it_gives_signs_of_life() -> None:
    member = one()
    assert not member.overdue(1e6, 60, 10), "nothing is asked of it"
    member.revoke(100)
    for now in range(101, 160, 9):
        assert not member.overdue(now, 60, 10)
        member.hear(now)
        member.revoke(now)  # asked again: the minute began at the first time
    assert "did not give back" in member.overdue(160.1, 60, 10)
    member.settle()
    assert not member.overdue(1e6, 60, 10)


def test_a_member_that_is_silent_has_less() -> None:
    member = one()
    member.revoke(100)
    assert not member.overdue(110, 60, 10)
    assert "no sign of life" in member.overdue(110.1, 60, 10)
    member.hear(110)
    assert not member.overdue(120, 60, 10)
    assert "no sign of life" in member.overdue(120.1, 60, 10)


def test_a_quiet_member_owes_one_sign_of_life() -> None:
    member = one()
    member.ask(100)
    member.ask(105)
    assert member.overdue(110.1, 60, 10)
    member.hear(106)
    assert not member.overdue(1e6, 60, 10)
