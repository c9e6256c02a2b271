"""Who is in a group, what it subscribes to, and who is told of a change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from support.echo import Echo, frame, read

from silomq.broker.groups.consumers import EXPIRY_S, Client, Consumers, Producers
from silomq.broker.groups.heartbeats import ConsumerData, Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silomq.broker.loop._connection import Connection


@pytest.fixture(scope="module")
def peers() -> Iterator[list[Connection]]:
    """Two connections."""
    with Echo() as echo, echo.connect() as first, echo.connect() as second:
        found: list[Connection] = []
        for end in (first, second):
            end.sendall(frame(b"x"))
            read(end, 9)
        echo.call(lambda: found.extend(echo.loop.connections.values()))
        yield found


def data(*topics: str, version: int = 1, model: str = "CLUSTERING") -> ConsumerData:
    subscriptions = [Subscription(topic, "*", version) for topic in topics]
    return ConsumerData("g", "CONSUME_PASSIVELY", model, subscriptions)


class Group:
    """A group, and whom it told."""

    def __init__(self, peers: list[Connection]) -> None:
        self.told: list[int] = []
        self.consumers = Consumers(lambda who, _: self.told.append(len(who)))
        self.peers = peers

    def beat(self, number: int, what: ConsumerData, age_s: float = 0) -> None:
        seen = time.monotonic() - age_s
        client = Client(self.peers[number], f"c{number}", "JAVA", 479, seen)
        self.consumers.register(client, what, notify=True)


@pytest.fixture
def group(peers: list[Connection]) -> Group:
    return Group(peers)


def test_members_come_and_go(group: Group) -> None:
    group.beat(0, data("a"))
    group.beat(0, data("a"))
    group.beat(1, data("a"))
    assert group.told == [1, 2], "a heart-beat that changes nothing is told to nobody"
    assert group.consumers.client_ids("g") == ["c0", "c1"]
    found = group.consumers.find("g", "c1")
    assert found is not None
    assert found.connection is group.peers[1]
    group.consumers.disconnected(group.peers[1])
    group.consumers.disconnected(group.peers[1])
    assert group.told == [1, 2, 1]
    group.consumers.unregister(group.peers[0], "g")
    assert not group.consumers.has_members("g")
    assert list(group.consumers) == []
    assert len(group.consumers) == 0


def test_the_newest_subscription_counts(group: Group) -> None:
    group.beat(0, data("a", "b", version=5))
    group.beat(1, data("a", version=4))
    found = group.consumers.get("g")
    assert found is not None
    assert {name: one.sub_version for name, one in found.subscriptions.items()} == {"a": 5}
    group.beat(1, data("a", version=6))
    assert found.subscriptions["a"].sub_version == 6


def test_a_group_that_broadcasts_is_not_told(group: Group) -> None:
    group.beat(0, data("a", model="BROADCASTING"))
    group.beat(1, data("a", model="BROADCASTING"))
    assert group.told == []


def test_members_without_heart_beats_expire(group: Group) -> None:
    group.beat(0, data("a"), EXPIRY_S + 1)
    group.beat(1, data("a"))
    assert group.consumers.expired() == [group.peers[0]]


class Senders:
    """Producers whose heart-beats have an age."""

    def __init__(self, peers: list[Connection]) -> None:
        self.producers = Producers()
        self.peers = peers

    def beat(self, number: int, *groups: str, client_id: str = "", age_s: float = 0) -> None:
        seen = time.monotonic() - age_s
        client = Client(self.peers[number], client_id or f"c{number}", "GO", 317, seen)
        self.producers.register(client, set(groups))


@pytest.fixture
def senders(peers: list[Connection]) -> Senders:
    return Senders(peers)


def test_producers(senders: Senders) -> None:
    producers, peers = senders.producers, senders.peers
    for number in range(2):
        senders.beat(number, "senders", "earlier")
        senders.beat(number, "senders", f"own-{number}")
    assert producers.counts() == {"senders": 2, "own-0": 1, "own-1": 1}
    assert {one.client_id for one in producers.members("senders")} == {"c0", "c1"}
    (found,) = producers.members("own-1")
    assert (found.connection, found.language, found.version) == (peers[1], "GO", 317)
    producers.unregister(peers[0], "nobody")
    producers.unregister(peers[0], "senders")
    producers.disconnected(peers[1])
    assert producers.counts() == {"own-0": 1}
    assert producers.members("senders") == []


def test_a_producer_is_found_by_its_client_id(senders: Senders) -> None:
    producers, peers = senders.producers, senders.peers
    senders.beat(0, "g", client_id="one")
    senders.beat(1, "g", client_id="one")
    assert producers.find("one") is peers[1], "the last heart-beat counts"
    producers.disconnected(peers[0])
    assert producers.find("one") is peers[1]
    senders.beat(1, "g", client_id="another")
    assert producers.find("one") is None
    assert producers.find("another") is peers[1]
    senders.beat(1, client_id="another")
    assert producers.find("another") is None, "it has no producer any more"
    producers.disconnected(peers[1])
    assert producers.counts() == {}


def test_producers_without_heart_beats_expire(senders: Senders) -> None:
    senders.beat(1, "g", age_s=EXPIRY_S + 2)
    senders.beat(0, "g", age_s=EXPIRY_S + 1)
    assert senders.producers.expired() == [senders.peers[1], senders.peers[0]]
    senders.beat(1, "g")
    assert senders.producers.expired() == [senders.peers[0]]
