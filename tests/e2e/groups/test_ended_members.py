"""Members whose sessions the store ends: their clients are still connected, and say nothing."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import settle
from support.harness import eventually

from silomq import Admin, GroupConsumer
from silomq.client.session import Connection
from silomq.shm.protocol.answers import Assigned
from silomq.shm.protocol.requests import Join, Lease, Open, Start, Sync
from silomq.shm.ring import DATA, FRAME_HEADER, MIN_CAPACITY, Ring

if TYPE_CHECKING:
    from support.harness import StoreProcess


def join_alone(link: Connection, group: str, topic: str) -> None:
    """Makes a client the member that has all queues of the topic."""
    link.request(Join(group, "clustering", {topic: ("TAG", "*")}, Start("earliest")))
    empty = link.request(Sync(0, []))
    assert isinstance(empty, Assigned)
    eventually(lambda: link.request(Sync(empty.number, [])) != empty, "the client has queues")


def publish_garbage(link: Connection) -> None:
    assert link.ring is not None
    memoryview(link.ring)[DATA : DATA + FRAME_HEADER] = b"\xff" * FRAME_HEADER
    Ring(link.ring, "producer").own("head").store(FRAME_HEADER)
    os.eventfd_write(link.bell, 1)


@pytest.mark.parametrize("served", [True, False], ids=["served", "without a registry"])
def test_a_member_whose_session_the_store_ends_leaves_its_group(
    store: StoreProcess, topic: str, *, served: bool
) -> None:
    group = f"g-{topic}"
    registry = store.pid("registry")
    link = Connection(store.path, ring_size=MIN_CAPACITY)
    try:
        link.request(Lease(0))
        link.request(Open(topic, write=True))
        join_alone(link, group, topic)
        if not served:
            store.kill("registry", signal.SIGSTOP)
        publish_garbage(link)
        if not served:
            eventually(lambda: store.control.load("sessions") == 0, "append has ended it")
            store.kill("registry")
            store.await_successor("registry", registry)
        eventually(lambda: not link.is_alive(), "the registry hangs up")
        eventually(lambda: store.table.leases() == [], "append takes the lease back")
        with GroupConsumer(store.path, group, topic) as other:
            settle(other)
            with Admin(store.path) as admin:
                assert len(admin.group(group).members) == 1
        fresh = Connection(store.path)
        assert not any(store.table.view[slice(*store.table._grant_range(0))])
        fresh.close()
    finally:
        link.close()
    assert "a consumer is expelled" not in store.log()
