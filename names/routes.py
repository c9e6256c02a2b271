"""`RouteTable`: which brokers there are, and which topics they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..broker.wire.route_data import BrokerData, Queues
from .registration import DataVersion, Topics

if TYPE_CHECKING:
    from collections.abc import Callable

MASTER: Final = 0
PERM_WRITE: Final = 2
#: A broker that has not registered for so long (s) is forgotten.
EXPIRY_S: Final = 120.0
#: Bits of a topic's topicSysFlag: the topic of a unit, and one with a subscription of a unit.
UNIT: Final = 1
UNIT_SUBSCRIPTION: Final = 2


class Registrant(NamedTuple):
    """Who registers: a broker's address, its id (0: the master), and where its replicas connect.
    `acting_master` is None for a broker of RocketMQ 4.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str
    acting_master: bool | None


class Master(NamedTuple):
    """The master of a broker's name, for its replicas."""

    address: str
    ha_address: str


class _Live(msgspec.Struct):
    """A broker that has registered. `connection` is the one that it came by."""

    who: Registrant
    version: DataVersion
    seen: float
    timeout_s: float
    connection: object


#: Bounds for what registrations can take of memory.
MOST_BROKERS: Final = 10_000
MOST_QUEUES: Final = 2_000_000


class Refused(Exception):
    """A registration that is refused; the text says why."""


class RouteTable:
    """Brokers, their addresses, and the queues of each topic. `clock` tells the time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.brokers: dict[str, BrokerData] = {}
        self.topics: dict[str, dict[str, Queues]] = {}
        self._live: dict[str, _Live] = {}

    # -- what brokers say

    def register(
        self, who: Registrant, topics: Topics, connection: object, timeout_s: float = EXPIRY_S
    ) -> Master | None:
        """Takes a broker's registration. Returns its master, for a replica that has one. Raises
        Refused.
        """
        broker = self.brokers.get(who.name) or BrokerData(who.cluster, who.name)
        holder = self._live.get(broker.addresses.get(who.broker_id, ""))
        if holder is not None and holder.who.address != who.address:
            ours, theirs = topics.version.state_version, holder.version.state_version
            if theirs > ours:
                return None  # as RocketMQ: ignored, and answered like a success
        if who.broker_id not in broker.addresses and len(topics.table) == 1:
            # A broker that is known registers a changed topic alone. One that is not would seem to
            # have this topic only.
            raise Refused("register broker failed")
        if who.address not in self._live and len(self._live) >= MOST_BROKERS:
            raise Refused(f"{MOST_BROKERS} brokers are registered: no more are taken")
        if sum(map(len, self.topics.values())) + len(topics.table) > MOST_QUEUES:
            raise Refused(f"{MOST_QUEUES} topics of brokers are registered: no more are taken")
        before = self._live.get(who.address)
        changed = before is None or before.who != who or before.version != topics.version
        if before is not None and before.who.name != who.name:
            self.unregister(who.address)  # it would stay under its old name for ever
        self.brokers[who.name] = broker
        broker.cluster = who.cluster
        broker.acting_master = bool(who.acting_master)
        for broker_id in [n for n, at in broker.addresses.items() if at == who.address]:
            del broker.addresses[broker_id]
        broker.addresses[who.broker_id] = who.address
        self._live[who.address] = _Live(who, topics.version, self._clock(), timeout_s, connection)
        if self._speaks_for_its_name(who, broker):
            self._take_topics(who, topics, changed=changed)
        return self._master_of(who, broker)

    def _speaks_for_its_name(self, who: Registrant, broker: BrokerData) -> bool:
        """Whether the queues of a broker's name are those that this one registers: the master's, or
        without a master those of RocketMQ 5's first replica.
        """
        if who.broker_id == MASTER:
            return True
        return who.acting_master is not None and who.broker_id == min(broker.addresses)

    def _take_topics(self, who: Registrant, topics: Topics, *, changed: bool) -> None:
        """Takes the queues of the topics, or of those that are not known if nothing has changed.

        A broker that makes two topics at the same time registers both with the version that the
        second has made. The one that comes first brings the version, the other an unknown topic.
        """
        writable = who.broker_id == MASTER or not who.acting_master
        for name, config in topics.table.items():
            if not changed and who.name in self.topics.get(name, ()):
                continue
            perm = config.perm if writable else config.perm & ~PERM_WRITE
            self.topics.setdefault(name, {})[who.name] = Queues(
                config.read_queue_nums, config.write_queue_nums, perm, config.topic_sys_flag
            )

    def _master_of(self, who: Registrant, broker: BrokerData) -> Master | None:
        if who.broker_id == MASTER:
            return None
        live = self._live.get(broker.addresses.get(MASTER, ""))
        return None if live is None else Master(live.who.address, live.who.ha_address)

    def unregister(self, address: str) -> None:
        """Forgets the broker at an address."""
        live = self._live.pop(address, None)
        if live is None:
            return
        broker = self.brokers.get(live.who.name)
        if broker is None:
            return
        for broker_id in [n for n, at in broker.addresses.items() if at == address]:
            del broker.addresses[broker_id]
        if not broker.addresses:
            del self.brokers[broker.name]
            for name in list(self.topics):
                self._drop_queues(name, broker.name)

    def disconnected(self, connection: object) -> list[str]:
        """Forgets the brokers that registered by a connection. Returns their addresses."""
        return self._forget([at for at, one in self._live.items() if one.connection is connection])

    def expire(self) -> list[str]:
        """Forgets the brokers that have not registered in time. Returns their addresses."""
        now = self._clock()
        return self._forget(
            [at for at, one in self._live.items() if now - one.seen > one.timeout_s]
        )

    def _forget(self, addresses: list[str]) -> list[str]:
        for address in addresses:
            self.unregister(address)
        return addresses

    def beat(self, address: str) -> DataVersion | None:
        """Notes that the broker at an address lives. Returns the version of its topics that is
        known here; None for an unknown broker.
        """
        live = self._live.get(address)
        if live is None:
            return None
        live.seen = self._clock()
        return live.version

    # -- what clients ask

    def queues(self, topic: str) -> dict[str, Queues]:
        """The queues of a topic, by the name of the broker. Empty for an unknown topic."""
        found = self.topics.get(topic, {})
        return {name: queues for name, queues in found.items() if name in self.brokers}

    def clusters(self) -> dict[str, list[str]]:
        """The names of brokers, by cluster."""
        found: dict[str, list[str]] = {}
        for broker in self.brokers.values():
            found.setdefault(broker.cluster, []).append(broker.name)
        return found

    def topics_of(self, cluster: str) -> list[str]:
        """The topics that a broker of the cluster has."""
        names = set(self.clusters().get(cluster, ()))
        return [topic for topic, queues in self.topics.items() if names & set(queues)]

    def topics_with(self, flag: int, without: int = 0) -> list[str]:
        """The topics whose topicSysFlag has a bit at some broker, and another one at none."""
        return [
            topic
            for topic, queues in self.topics.items()
            if any(one.sys_flag & flag for one in queues.values())
            and not any(one.sys_flag & without for one in queues.values())
        ]

    # -- what operators change

    def set_writable(self, broker: str, *, writable: bool) -> int:
        """Gives or takes the right to write to a broker's topics. Returns how many topics it
        has.
        """
        count = 0
        for queues in self.topics.values():
            if (one := queues.get(broker)) is not None:
                perm = one.perm | PERM_WRITE if writable else one.perm & ~PERM_WRITE
                queues[broker] = one._replace(perm=perm)
                count += 1
        return count

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forgets a topic, in one cluster or everywhere. A broker that still has it brings it back
        with its next full registration.
        """
        names = None if cluster is None else self.clusters().get(cluster, [])
        for broker in list(self.topics.get(topic, ())):
            if names is None or broker in names:
                self._drop_queues(topic, broker)

    def _drop_queues(self, topic: str, broker: str) -> None:
        queues = self.topics[topic]
        queues.pop(broker, None)
        if not queues:
            del self.topics[topic]
