"""Which brokers a name server knows, and what it says of their topics."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from silomq.broker.wire.route_data import Queues
from silomq.names.registration import DataVersion, TopicConfig, Topics
from silomq.names.routes import Master, Refused, Registrant, RouteTable

MASTER = Registrant("c", "b", 0, "1.1.1.1:10911", "1.1.1.1:10912", acting_master=False)
REPLICA = MASTER._replace(broker_id=1, address="2.2.2.2:10911", ha_address="2.2.2.2:10912")
OLD_REPLICA = REPLICA._replace(acting_master=None)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> RouteTable:
    return RouteTable(clock)


def topics(*names: str, counter: int = 1, perm: int = 6, state: int = 0) -> Topics:
    config = TopicConfig(4, 2, perm, 0)
    return Topics(DataVersion(counter, state, 0), dict.fromkeys(names, config))


def test_a_master_brings_its_topics(table: RouteTable) -> None:
    assert table.register(MASTER, topics("x", "y"), "connection") is None
    assert table.queues("x") == {"b": Queues(4, 2, 6, 0)}
    assert table.queues("z") == {}
    assert table.clusters() == {"c": ["b"]}
    assert table.topics_of("c") == ["x", "y"]
    assert table.brokers["b"].addresses == {0: MASTER.address}


def test_a_known_version_changes_nothing(table: RouteTable) -> None:
    table.register(MASTER, topics("x", "y"), "connection")
    table.register(MASTER, topics("x", "y", perm=4), "connection")
    assert table.queues("x") == {"b": Queues(4, 2, 6, 0)}
    table.register(MASTER, topics("z", counter=2), "connection")
    assert sorted(table.topics) == ["x", "y", "z"], "one topic alone, of a broker that is known"


def test_two_topics_that_are_made_at_the_same_time(table: RouteTable) -> None:
    table.register(MASTER, topics("x", "y"), "connection")
    table.register(MASTER, topics("second", counter=3), "connection")
    table.register(MASTER, topics("first", counter=3), "connection")
    assert sorted(table.topics) == ["first", "second", "x", "y"]
    table.register(REPLICA, topics("first", "third", counter=3), "another")
    assert "third" not in table.topics, "a replica says nothing while there is a master"


def test_one_topic_is_no_first_registration(table: RouteTable) -> None:
    with pytest.raises(Refused, match="register broker failed"):
        table.register(MASTER, topics("x"), "connection")
    assert table.brokers == {}
    assert table.topics == {}


def test_a_replica_is_told_its_master(table: RouteTable) -> None:
    assert table.register(REPLICA, topics("x", "y"), "r") is None
    table.register(MASTER, topics("x", "y"), "m")
    assert table.register(REPLICA, topics("x", "y"), "r") == Master(
        MASTER.address, MASTER.ha_address
    )
    assert table.brokers["b"].addresses == {0: MASTER.address, 1: REPLICA.address}


@pytest.mark.parametrize(
    ("replica", "found"),
    [
        (REPLICA, {"b": Queues(4, 2, 6, 0)}),
        (REPLICA._replace(acting_master=True), {"b": Queues(4, 2, 4, 0)}),
        (OLD_REPLICA, {}),
    ],
)
def test_without_a_master_the_first_replica_of_rocketmq_5_speaks(
    table: RouteTable, replica: Registrant, found: dict[str, Queues]
) -> None:
    table.register(replica, topics("x", "y"), "r")
    assert table.queues("x") == found
    table.register(replica._replace(broker_id=2, address="3:1"), topics("z", "y"), "s")
    assert "z" not in table.topics


def test_a_promoted_broker_has_one_id(table: RouteTable) -> None:
    table.register(REPLICA, topics("x", "y"), "r")
    table.register(REPLICA._replace(broker_id=0), topics("x", "y"), "r")
    assert table.brokers["b"].addresses == {0: REPLICA.address}


def test_a_renamed_broker_is_gone_under_its_old_name(table: RouteTable) -> None:
    table.register(MASTER, topics("x", "y"), "m")
    table.register(MASTER._replace(name="new"), topics("x", "z"), "m")
    assert set(table.queues("x")) == set(table.brokers) == {"new"}
    assert table.queues("y") == {}
    assert table.disconnected("m") == [MASTER.address]
    assert table.brokers == {}
    assert table.topics == {}


def test_an_older_state_does_not_take_the_id_of_a_living_broker(table: RouteTable) -> None:
    table.register(MASTER, topics("x", "y", state=2), "m")
    other = MASTER._replace(address="9.9.9.9:1")
    assert table.register(other, topics("x", "z", state=1), "o") is None
    assert table.brokers["b"].addresses == {0: MASTER.address}
    table.register(other, topics("x", "z", state=3), "o")
    assert table.brokers["b"].addresses == {0: other.address}


def test_brokers_go_with_their_connection_their_time_and_their_word(
    table: RouteTable, clock: Clock
) -> None:
    table.register(MASTER, topics("x", "y"), "m")
    table.register(REPLICA, topics("x", "y"), "r")
    assert table.disconnected("another") == []
    assert table.disconnected("m") == [MASTER.address]
    assert table.brokers["b"].addresses == {1: REPLICA.address}
    assert table.queues("x"), "the replica still has it"
    clock.now += 119
    assert table.expire() == []
    assert table.beat(REPLICA.address) == DataVersion(1, 0, 0)
    assert table.beat(MASTER.address) is None
    clock.now += 119
    assert table.expire() == []
    clock.now += 2
    assert table.expire() == [REPLICA.address]
    assert table.brokers == {}
    assert table.topics == {}
    table.register(MASTER, topics("x", "y"), "m")
    table.unregister(MASTER.address)
    assert table.brokers == {}
    assert table.topics == {}
    table.register(MASTER, topics("x", "y"), "m", timeout_s=1)
    clock.now += 2
    assert table.expire() == [MASTER.address]


def test_a_topic_of_two_brokers(table: RouteTable) -> None:
    other = MASTER._replace(cluster="d", name="e", address="5:5")
    table.register(MASTER, topics("x", "y"), "m")
    table.register(other, topics("x", "z"), "o")
    assert set(table.queues("x")) == {"b", "e"}
    table.delete_topic("x", "d")
    assert set(table.queues("x")) == {"b"}
    table.delete_topic("x")
    assert table.queues("x") == {}
    assert table.topics_of("d") == ["z"]
    table.unregister(MASTER.address)
    assert list(table.topics) == ["z"]


def test_write_permissions_are_taken_and_given_back(table: RouteTable) -> None:
    table.register(MASTER, topics("x", "y"), "m")
    assert table.set_writable("b", writable=False) == 2
    assert table.queues("x")["b"].perm == 4
    assert table.set_writable("nobody", writable=False) == 0
    assert table.set_writable("b", writable=True) == 2
    assert table.queues("x")["b"].perm == 6


def test_topics_of_units(table: RouteTable) -> None:
    flags = {"plain": 0, "unit": 1, "subscribed": 2, "both": 3}
    configs = {name: TopicConfig(1, 1, 6, flag) for name, flag in flags.items()}
    table.register(MASTER, Topics(DataVersion(), configs), "m")
    assert table.topics_with(1) == ["unit", "both"]
    assert table.topics_with(2) == ["subscribed", "both"]
    assert table.topics_with(2, without=1) == ["subscribed"]
