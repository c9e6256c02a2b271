"""What the end of a member acknowledges, and that nothing is done in its name afterwards."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import member_of, numbers, rest, send, take

from silomq import StoreClosed

if TYPE_CHECKING:
    from support.harness import StoreProcess

    from silomq import GroupConsumer


def test_a_normal_end_acknowledges_the_last_poll(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 40)
    with member_of(store, group, topic) as member:
        found = take(member, 10)
    assert rest(store, group, topic) == sorted(set(range(40)) - set(numbers(found)))


def test_an_exception_acknowledges_nothing(store: StoreProcess, topic: str, group: str) -> None:
    send(store, topic, 40)

    def poll() -> None:
        with member_of(store, group, topic) as member:
            take(member, 10)
            raise ZeroDivisionError

    def iterate() -> None:
        with member_of(store, group, topic) as member:
            for count, _ in enumerate(member):
                if count == 3:
                    raise ZeroDivisionError

    for work in (poll, iterate):
        with pytest.raises(ZeroDivisionError):
            work()
    assert len(rest(store, group, topic)) == 37, "three were followed by another"


def test_close_acknowledges_nothing(store: StoreProcess, topic: str, group: str) -> None:
    send(store, topic, 40)
    with member_of(store, group, topic) as member:
        take(member, 10)
        member.close()
    assert rest(store, group, topic) == list(range(40))


def test_nothing_is_acknowledged_or_sent_back_after_close(
    store: StoreProcess, topic: str, group: str
) -> None:
    """The messages are another member's by then."""
    send(store, topic, 8)
    member = member_of(store, group, topic)
    found = take(member, 4)
    member.close()
    for call in (lambda: member.ack(found), member.ack_polled, lambda: member.nack(found[0])):
        with pytest.raises(StoreClosed, match="is closed"):
            call()
    assert rest(store, group, topic) == list(range(8))


def test_a_member_may_be_closed_while_another_thread_reads(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 400)
    ends: list[BaseException] = []

    def read(member: GroupConsumer) -> None:
        try:
            while True:
                member.poll(3, 0.01)
        except BaseException as error:  # noqa: BLE001 - looked at below
            ends.append(error)

    for _ in range(60):
        member = member_of(store, group, topic, auto_ack=False)
        thread = threading.Thread(target=read, args=(member,))
        thread.start()
        member.poll(3, 1.0)
        member.close()
        thread.join()
    assert {type(error) for error in ends} == {StoreClosed}, ends


def test_without_auto_ack_the_end_acknowledges_nothing(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 40)
    with member_of(store, group, topic, auto_ack=False) as member:
        take(member, 10)
    assert rest(store, group, topic) == list(range(40))
