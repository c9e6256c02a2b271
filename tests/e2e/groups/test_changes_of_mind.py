"""Queues that are revoked, given back and assigned to the same member again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.harness import eventually

from silomq.client.session import Connection
from silomq.shm.protocol.answers import Assigned, Revoke
from silomq.shm.protocol.requests import Join, Start, Sync

if TYPE_CHECKING:
    from support.harness import StoreProcess


def join(link: Connection, topic: str) -> None:
    link.request(Join(f"g-{topic}", "clustering", {topic: ("TAG", "*")}, Start("earliest")))


def test_a_queue_given_back_too_late_is_told_again(store: StoreProcess, topic: str) -> None:
    """The member for which it was revoked has gone meanwhile. The one that gave it back has dropped
    it, and reads it again only if it is told.
    """
    link, other = Connection(store.path), Connection(store.path)
    try:
        join(link, topic)
        number = 0

        def has_queues() -> bool:
            nonlocal number
            answer = link.request(Sync(number, []))
            assert isinstance(answer, Assigned)
            before, number = number, answer.number
            return before not in (0, number)

        eventually(has_queues, "it has all queues")
        join(other, topic)
        eventually(lambda: isinstance(link.request(Sync(number, [])), Revoke), "some are revoked")
        revoked = link.request(Sync(number, []))
        assert isinstance(revoked, Revoke)
        other.close()
        eventually(lambda: isinstance(link.request(Sync(number, [])), Assigned), "it may keep them")
        again = link.request(Sync(number, revoked.revoke))
        assert isinstance(again, Assigned)
        assert again.number != number
    finally:
        link.close()
        other.close()


def test_a_new_registry_revokes_nothing_before_it_has_divided(
    store: StoreProcess, topic: str
) -> None:
    link = Connection(store.path)
    try:
        join(link, topic)
        first = link.request(Sync(0, []))
        assert isinstance(first, Assigned)
        had = first.number

        def number() -> int:
            answer = link.request(Sync(had, []))
            assert isinstance(answer, Assigned), "nothing is revoked"
            return answer.number

        eventually(lambda: number() != had, "it has all queues")
        had = number()
        for _ in range(5):
            store.replace("registry")
            assert number() == had
    finally:
        link.close()
