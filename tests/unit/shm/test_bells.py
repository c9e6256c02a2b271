"""Ringing: once for each sleep, for the reasons that the client has, and never at a cost to the one
who rings.
"""

from __future__ import annotations

import os

import pytest
from support.bells import ALL, bell_of, is_readable
from support.harness import tries_within
from support.open_files import nothing_stays_open

from silomq.shm import bell
from silomq.shm._bells import Bells
from silomq.shm._memory import Mapping
from silomq.shm.bell import Reason

SESSION = 7


def test_a_bell_that_comes_is_rung_at_once() -> None:
    ends = bell.create(SESSION)
    bells = Bells()
    bells.attach(SESSION, Mapping(ends.page, 0, bell.SIZE, writable=False), ends.store)
    assert is_readable(ends.client)
    ends.store = -1
    ends.close()


@pytest.mark.parametrize("reason", Reason)
def test_a_sleeper_is_rung_for_its_reasons_alone(reason: Reason) -> None:
    with bell_of(SESSION) as (bells, mine):
        mine.arm(ALL & ~reason)
        bells.ring(reason)
        assert not is_readable(mine.fd)
        mine.arm(reason)
        bells.ring(ALL & ~reason)
        assert not is_readable(mine.fd)
        bells.ring(reason)
        assert is_readable(mine.fd)


def test_a_sleep_is_rung_once() -> None:
    with bell_of(SESSION) as (bells, mine):
        mine.arm(ALL)
        for _ in range(3):
            bells.ring(Reason.ANSWERS)
        assert mine.drain()
        bells.ring(Reason.ANSWERS)
        assert not is_readable(mine.fd)
        mine.arm(ALL)
        bells.ring(Reason.ANSWERS)
        assert is_readable(mine.fd)


def test_who_is_awake_is_not_rung() -> None:
    with bell_of(SESSION) as (bells, mine):
        bells.ring(ALL)
        mine.arm(ALL)
        mine.disarm()
        bells.ring(ALL)
        bells.ring_one(SESSION, ALL)
        assert not is_readable(mine.fd)


def test_one_of_many_is_rung() -> None:
    with bell_of(1) as (_, other), bell_of(SESSION) as (bells, mine):
        for each in (other, mine):
            each.arm(ALL)
        bells.ring_one(1, ALL)
        assert not is_readable(mine.fd)
        bells.ring_one(SESSION, ALL)
        assert is_readable(mine.fd)
        assert not is_readable(other.fd)


def test_another_bell_replaces_the_first_one() -> None:
    with bell_of(SESSION) as (bells, first):
        ends = bell.create(SESSION)
        bells.attach(SESSION, Mapping(ends.page, 0, bell.SIZE, writable=False), ends.store)
        assert len(bells) == 1
        assert not first.drain(), "the store has hung up"
        assert is_readable(ends.client)
        ends.store = -1
        ends.close()


def test_bells_leave_in_any_order() -> None:
    with nothing_stays_open():
        bells = Bells()
        clients = {}
        for session in range(5):
            ends = bell.create(session)
            bells.attach(session, Mapping(ends.page, 0, bell.SIZE, writable=False), ends.store)
            os.close(ends.page)
            clients[session] = ends.client
        for session in (0, 4, 2, 99):
            bells.detach(session)
        assert len(bells) == 2
        for session, client in clients.items():
            os.read(client, 64)
            assert is_readable(client) is (session in (0, 4, 2)), "hung up"
        del bells
        for client in clients.values():
            os.close(client)


def test_a_client_that_never_reads_holds_nobody_up() -> None:
    with bell_of(SESSION) as (bells, mine):

        def ring_often() -> None:
            for _ in range(10_000):
                mine.arm(ALL)
                bells.ring(ALL)

        tries_within(5.0, ring_often)
        assert mine.drain()
        mine.arm(ALL)
        bells.ring(ALL)
        assert is_readable(mine.fd), "it rings again as soon as there is room"


def test_a_client_that_has_closed_its_end_holds_nobody_up() -> None:
    with bell_of(SESSION) as (bells, mine):
        mine.arm(ALL)
        mine.close()
        bells.ring(ALL)
        mine.arm(ALL)
        bells.ring_one(SESSION, ALL)
