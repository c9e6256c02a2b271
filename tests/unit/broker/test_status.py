"""What a broker says of itself fits on its board, whatever its peers are called."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from silomq.broker.groups.consumers import Client, Consumers, Producers
from silomq.broker.groups.heartbeats import ConsumerData, Subscription
from silomq.broker.loop.reasons import Reasons
from silomq.broker.processors.counts import UNKNOWN, Counts
from silomq.broker.statistics.statistics import Statistics
from silomq.broker.status import Status
from silomq.broker.wire.codes import RequestCode, ResponseCode
from silomq.shm import board
from silomq.shm.protocol import broker_status

if TYPE_CHECKING:
    from silomq.shm.protocol.broker_status import BrokerStatus


class Peer:
    """A connection, as far as a status is concerned."""

    def __init__(self, number: int) -> None:
        self.peer = f"10.0.0.1:{number}"


class Rig:
    """A status of counts and groups that the test fills."""

    def __init__(self) -> None:
        self.consumers = Consumers(lambda *_: None)
        self.producers = Producers()
        self.counts = Counts()
        self.statistics = Statistics("c")
        self.servers: list[tuple[str, str, str]] = []
        logger = SimpleNamespace(warning=lambda *_, **__: None)
        self.reasons = Reasons(logger)
        parts: Any = SimpleNamespace(
            settings=SimpleNamespace(broker_name="b" * 127, broker_cluster_name="c" * 127),
            loop=SimpleNamespace(connections={1: None, 2: None}),
            sending=SimpleNamespace(messages=5),
            holds=SimpleNamespace(count=3),
            counts=self.counts,
            consumers=self.consumers,
            producers=self.producers,
            statistics=self.statistics,
        )
        limits: Any = SimpleNamespace(received=10, sent=20)
        registrar: Any = SimpleNamespace(states=lambda: self.servers)
        self.status = Status(
            parts,
            limits=limits,
            reasons=self.reasons,
            registrar=registrar,
            listens="127.0.0.1:1",
            told="127.0.0.1:2",
        )

    def join(self, number: int, group: str, client_id: str, *topics: str) -> None:
        connection: Any = Peer(number)
        client = Client(connection, client_id, "GO", 479, time.monotonic())
        subscriptions = [Subscription(topic, "*", 1) for topic in topics]
        data = ConsumerData(group, "CONSUME_PASSIVELY", "CLUSTERING", subscriptions)
        self.consumers.register(client, data, notify=False)

    def produce(self, number: int, group: str) -> None:
        connection: Any = Peer(number)
        client = Client(connection, f"p{number}", "GO", 479, time.monotonic())
        self.producers.register(client, {group})

    def document(self) -> BrokerStatus:
        document = self.status.document()
        assert len(document) <= board.MOST
        return broker_status.decode(document)


def test_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rig.counts.fast.append(SimpleNamespace(counted=lambda: ({310: 100, 320: 0}, 120, 7)))
    found = rig.document()
    assert [one.per_second for one in found.requests] == [0.0]
    for _ in range(30):  # ten seconds and more, one request of a kind in each
        now += 1
        rig.counts.request(RequestCode.PULL_MESSAGE)
        rig.counts.pulled += 2
        found = rig.document()
    assert [(one.request, one.count, one.per_second) for one in found.requests] == [
        ("SEND_MESSAGE_V2", 100, 0.0),
        ("PULL_MESSAGE", 30, 1.0),
    ]
    assert (found.messages_sent, found.messages_pulled) == (125, 67)
    assert (found.connections, found.held_pulls, found.bytes_in, found.bytes_out) == (2, 3, 10, 20)
    rig.statistics.pulled("t", "g", 3, 30)
    rig.statistics.missed += 2
    rig.statistics.reads.append(lambda: (10, 20))
    rig.statistics.sent("t", 1, 10, 0.004)
    found = rig.document()
    assert (found.pulls_found, found.pulls_missed) == (11, 22)
    assert (found.put_ms_99, found.put_ms_longest) == (5.0, 4)
    assert found.put_ms_sum == 4
    assert found.put_ms_below == [0, 0, *[1] * 12]
    assert (found.listens, found.told) == ("127.0.0.1:1", "127.0.0.1:2")
    for _ in range(11):
        now += 1
        found = rig.document()
    assert [one.per_second for one in found.requests] == [0.0, 0.0], "a rate is of the last 10 s"


def test_refusals_and_reasons() -> None:
    rig = Rig()
    for _ in range(2):
        rig.counts.refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION)
    rig.counts.refuse(UNKNOWN, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    rig.reasons.add("too slow", "h:1")
    rig.servers.append(("h:9876", "failed", "nobody"))
    found = rig.document()
    assert [(one.request, one.answer, one.count) for one in found.refused] == [
        ("PULL_MESSAGE", "NO_PERMISSION", 2),
        ("others", "REQUEST_CODE_NOT_SUPPORTED", 1),
    ]
    assert [(one.why, one.count) for one in found.closed] == [("too slow", 1)]
    assert [(one.address, one.state) for one in found.name_servers] == [("h:9876", "failed")]


def test_groups() -> None:
    rig = Rig()
    rig.join(1, "g", "c1", "a", "b")
    rig.join(2, "g", "c2", "a", "b")
    rig.join(3, "h", "c3", "a")
    rig.produce(4, "p")
    found = rig.document()
    assert [(one.group, one.member_count, one.topics) for one in found.groups] == [
        ("g", 2, ["a", "b"]),
        ("h", 1, ["a"]),
    ]
    member = found.groups[0].members[1]
    assert (member.client_id, member.language, member.address) == ("c2", "GO", "10.0.0.1:2")
    assert [(one.group, one.connections) for one in found.producer_groups] == [("p", 1)]
    assert (found.group_count, found.producer_group_count) == (2, 1)


@pytest.mark.parametrize("letter", ["x", "\0", "\u202e", "\U0001f600", "\ud800", '"'], ids=ascii)
def test_what_does_not_fit_is_counted_only(letter: str) -> None:
    rig = Rig()
    for number in range(300):
        long = letter * 2000
        rig.join(number, f"g{number}{long}", f"c{number}{long}", f"t{long}", f"u{long}")
        rig.reasons.add(f"{number}{long}", "h:1")
        rig.servers.append((f"{number}{long}", "failed", long))
        rig.produce(number, f"p{number}{long}")
    for request in RequestCode:
        rig.counts.request(request)
        for answer in ResponseCode:
            rig.counts.refuse(request, answer)
    found = rig.document()
    assert (found.group_count, found.producer_group_count) == (300, 300)
    assert len(found.groups) < 300
    assert all(one.member_count == 1 for one in found.groups)
    assert len(found.requests) == len(RequestCode)
    assert len(found.closed) <= 21
