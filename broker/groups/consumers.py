"""The consumer groups that are connected, and the clients that have producers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from ..loop._connection import Connection
from .heartbeats import BROADCASTING, ConsumerData, Subscription

#: RocketMQ's channelExpiredTimeout (s): a client that sends no heart-beat for so long is gone.
EXPIRY_S: Final = 120.0


def _everywhere(_: str) -> bool:
    """Whether a client without an account may send to a topic."""
    return True


class Client(msgspec.Struct):
    """One connection's membership in a group. `seen_at` is the monotonic time (s) of its last
    heart-beat, `topics` and `broadcasts` are what it said there. `may_write` says whether it could
    send to a topic then.
    """

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_at: float
    topics: frozenset[str] = frozenset()
    broadcasts: bool = False
    may_write: Callable[[str], bool] = _everywhere


class ConsumerGroup(msgspec.Struct):
    """One group: its members by connection, and what it subscribes to, by topic."""

    name: str
    clients: dict[Connection, Client] = {}
    subscriptions: dict[str, Subscription] = {}
    model: str = ""
    consume_type: str = ""
    from_where: str = ""

    @property
    def broadcasts(self) -> bool:
        """Whether each member gets every message."""
        return self.model == BROADCASTING

    def subscribe(self, wanted: list[Subscription]) -> tuple[bool, bool]:
        """Takes over the subscriptions of a heart-beat. Returns whether anything has changed, and
        whether a topic came or went.
        """
        before = dict(self.subscriptions)
        for one in wanted:
            known = self.subscriptions.get(one.topic)
            if known is None or one.sub_version > known.sub_version:
                self.subscriptions[one.topic] = one
        topics = {one.topic for one in wanted}
        for topic in before.keys() - topics:
            del self.subscriptions[topic]
        return self.subscriptions != before, self.subscriptions.keys() != before.keys()


class Consumers:
    """All consumer groups. `notify(connections, group)` is called when the members of a group have
    changed, with the connections that are to be told. `members_changed(group)` is called when
    members came or went or subscribe to something else, and `left(connection, group)` when one has
    left.
    """

    def __init__(
        self,
        notify: Callable[[list[Connection], str], None],
        members_changed: Callable[[str], None] = lambda _: None,
        left: Callable[[Connection, str], None] = lambda *_: None,
    ) -> None:
        self._members_changed = members_changed
        self._left = left
        self._groups: dict[str, ConsumerGroup] = {}
        self._by_connection: dict[Connection, set[str]] = {}
        self._notify = notify
        #: Called when a group has other members, or other subscriptions.
        self.changed: list[Callable[[], None]] = []

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, name: str) -> ConsumerGroup | None:
        """A group that has members, or None."""
        return self._groups.get(name)

    def has_members(self, name: str) -> bool:
        """Whether a group has members."""
        return name in self._groups

    def register(self, client: Client, data: ConsumerData, *, notify: bool) -> None:
        """Notes a heart-beat of a member. With `notify` all members learn of a change."""
        group = self._groups.setdefault(data.group_name, ConsumerGroup(data.group_name))
        known = group.clients.get(client.connection)
        topics = frozenset(one.topic for one in data.subscription_data_set)
        broadcasts = data.message_model == BROADCASTING
        client = replace(client, topics=topics, broadcasts=broadcasts)
        is_new = known is None
        group.clients[client.connection] = client
        self._by_connection.setdefault(client.connection, set()).add(group.name)
        was = group.model
        group.model = str(data.message_model)
        group.consume_type = str(data.consume_type)
        group.from_where = str(data.consume_from_where)
        changed, other_topics = group.subscribe(data.subscription_data_set)
        if is_new or changed or was != group.model:
            self._tell()
        if (is_new or other_topics) and notify and not group.broadcasts:
            self._notify(list(group.clients), group.name)
        if known is None or _share(known) != _share(client):
            self._members_changed(group.name)

    def _tell(self) -> None:
        for call in self.changed:
            call()

    def unregister(self, connection: Connection, name: str, *, notify: bool = True) -> None:
        """Removes a member. The others learn of it."""
        group = self._groups.get(name)
        if group is None or group.clients.pop(connection, None) is None:
            return
        self._tell()
        names = self._by_connection.get(connection, set())
        names.discard(name)
        if not names:
            self._by_connection.pop(connection, None)
        if not group.clients:
            del self._groups[name]
        elif notify and not group.broadcasts:
            self._notify(list(group.clients), name)
        self._left(connection, name)
        self._members_changed(name)

    def disconnected(self, connection: Connection) -> None:
        """Removes a connection from all its groups."""
        for name in list(self._by_connection.get(connection, ())):
            self.unregister(connection, name)

    def expired(self) -> list[Connection]:
        """The connections that have sent no heart-beat in time."""
        limit = time.monotonic() - EXPIRY_S
        return [
            client.connection
            for group in self._groups.values()
            for client in group.clients.values()
            if client.seen_at < limit
        ]

    def client_ids(self, name: str) -> list[str]:
        """The client ids of a group's members, as RocketMQ lists them."""
        group = self._groups.get(name)
        return [] if group is None else [one.client_id for one in group.clients.values()]

    def sharing(self, name: str) -> tuple[list[str], list[str]]:
        """The client ids of a group's clustering members, and the topics to which one of them
        subscribes, both sorted.
        """
        group = self._groups.get(name)
        clients = [] if group is None else group.clients.values()
        members = [one for one in clients if not one.broadcasts]
        topics = frozenset[str]().union(*(one.topics for one in members))
        return sorted(one.client_id for one in members), sorted(topics)

    def is_member(self, name: str, connection: Connection) -> bool:
        """Whether a connection is a member of a group."""
        group = self._groups.get(name)
        return group is not None and connection in group.clients

    def is_sharing(self, name: str, connection: Connection) -> bool:
        """Whether a connection is a clustering member of a group."""
        group = self._groups.get(name)
        client = None if group is None else group.clients.get(connection)
        return client is not None and not client.broadcasts

    def is_broadcasting(self, name: str, connection: Connection) -> bool:
        """Whether a connection is a broadcasting member of a group."""
        group = self._groups.get(name)
        client = None if group is None else group.clients.get(connection)
        return client is not None and client.broadcasts

    def find(self, name: str, client_id: str) -> Client | None:
        """A member of a group by its client id."""
        group = self._groups.get(name)
        clients = () if group is None else group.clients.values()
        return next((one for one in clients if one.client_id == client_id), None)


def _share(client: Client) -> tuple[object, ...]:
    """What of a member counts in the division of queues."""
    return client.client_id, client.topics, client.broadcasts


class Producer(msgspec.Struct):
    """One connection's client, and the groups in which it has producers. `seen_at` is the monotonic
    time (s) of its last heart-beat, `may_write` says to which topics it could send then.
    """

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_at: float
    groups: frozenset[str] = frozenset()
    may_write: Callable[[str], bool] = _everywhere


class Producers:
    """The clients that have producers, by connection, by group, and by client id."""

    def __init__(self) -> None:
        #: By the time of the last heart-beat, the oldest first.
        self._clients: dict[Connection, Producer] = {}
        self._groups: dict[str, set[Connection]] = {}
        self._by_id: dict[str, Connection] = {}
        #: Called with a group that has its first producer.
        self.came: Callable[[str], None] = lambda _: None

    def counts(self) -> dict[str, int]:
        """How many connections each group has."""
        return {name: len(members) for name, members in self._groups.items()}

    def members(self, group: str) -> list[Producer]:
        """The clients that have a producer in a group, by client id."""
        found = [self._clients[one] for one in self._groups.get(group, ())]
        return sorted(found, key=lambda one: one.client_id)

    def find(self, client_id: str) -> Connection | None:
        """The connection by which a client last sent a heart-beat, None without one."""
        return self._by_id.get(client_id)

    def register(self, client: Client, names: set[str]) -> None:
        """Notes a heart-beat: it names all groups in which a client has producers."""
        connection = client.connection
        if client.client_id != (known := self._known(connection)).client_id:
            self._forget_id(known)
        for name in known.groups - names:
            self.unregister(connection, name)
        if not names:
            return
        first = [name for name in names if name not in self._groups]
        for name in names:
            self._groups.setdefault(name, set()).add(connection)
        self._clients.pop(connection, None)  # the newest heart-beat is last
        self._clients[connection] = Producer(
            connection, client.client_id, client.language, client.version, client.seen_at,
            frozenset(names), client.may_write,
        )  # fmt: skip
        self._by_id[client.client_id] = connection
        for name in first:
            self.came(name)

    def unregister(self, connection: Connection, name: str) -> None:
        """Removes a producer from a group."""
        members = self._groups.get(name, set())
        members.discard(connection)
        if not members:
            self._groups.pop(name, None)
        client = self._known(connection)
        client.groups -= {name}
        if not client.groups:
            self._clients.pop(connection, None)
            self._forget_id(client)

    def disconnected(self, connection: Connection) -> None:
        """Removes a connection from all groups."""
        for name in self._known(connection).groups:
            self.unregister(connection, name)

    def expired(self) -> list[Connection]:
        """The connections that have sent no heart-beat in time."""
        limit = time.monotonic() - EXPIRY_S
        late = itertools.takewhile(lambda one: one.seen_at < limit, self._clients.values())
        return [one.connection for one in late]

    def _known(self, connection: Connection) -> Producer:
        found = self._clients.get(connection)
        return Producer(connection, "", "", 0, 0.0) if found is None else found

    def _forget_id(self, client: Producer) -> None:
        """Forgets an id, unless the same client has sent heart-beats by another connection."""
        if self._by_id.get(client.client_id) is client.connection:
            del self._by_id[client.client_id]
