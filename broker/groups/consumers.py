"""The consumer groups that are connected, and the connections of producers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..loop._connection import Connection
from .heartbeats import BROADCASTING, ConsumerData, Subscription

#: RocketMQ's channelExpiredTimeout (s): a client that sends no heart-beat for so long is gone.
EXPIRY_S: Final = 120.0


@dataclass(slots=True)
class Client:
    """One connection's membership in a group. `seen_at` is the monotonic time (s) of its last
    heart-beat.
    """

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_at: float


@dataclass(slots=True)
class ConsumerGroup:
    """One group: its members by connection, and what it subscribes to, by topic."""

    name: str
    clients: dict[Connection, Client] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    consume_type: str = ""
    model: str = ""

    @property
    def broadcasts(self) -> bool:
        """Whether each member gets every message."""
        return self.model == BROADCASTING

    def subscribe(self, wanted: list[Subscription]) -> bool:
        """Takes over the subscriptions of a heart-beat. Returns whether a topic came or went."""
        before = set(self.subscriptions)
        for one in wanted:
            known = self.subscriptions.get(one.topic)
            if known is None or one.sub_version > known.sub_version:
                self.subscriptions[one.topic] = one
        topics = {one.topic for one in wanted}
        for topic in before - topics:
            del self.subscriptions[topic]
        return set(self.subscriptions) != before


class Consumers:
    """All consumer groups. `notify(connections, group)` is called when the members of a group have
    changed, with the connections that are to be told.
    """

    def __init__(self, notify: Callable[[list[Connection], str], None]) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._by_connection: dict[Connection, set[str]] = {}
        self._notify = notify

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def get(self, name: str) -> ConsumerGroup | None:
        """A group that has members, or None."""
        return self._groups.get(name)

    def has_members(self, name: str) -> bool:
        """Whether a group has members."""
        return name in self._groups

    def register(self, client: Client, data: ConsumerData, *, notify: bool) -> None:
        """Notes a heart-beat of a member. With `notify` all members learn of a change."""
        group = self._groups.setdefault(data.group_name, ConsumerGroup(data.group_name))
        is_new = client.connection not in group.clients
        group.clients[client.connection] = client
        self._by_connection.setdefault(client.connection, set()).add(group.name)
        group.consume_type = str(data.consume_type)
        group.model = str(data.message_model)
        changed = group.subscribe(data.subscription_data_set)
        if (is_new or changed) and notify and not group.broadcasts:
            self._notify(list(group.clients), group.name)

    def unregister(self, connection: Connection, name: str, *, notify: bool = True) -> None:
        """Removes a member. The others learn of it."""
        group = self._groups.get(name)
        if group is None or group.clients.pop(connection, None) is None:
            return
        names = self._by_connection.get(connection, set())
        names.discard(name)
        if not names:
            self._by_connection.pop(connection, None)
        if not group.clients:
            del self._groups[name]
        elif notify and not group.broadcasts:
            self._notify(list(group.clients), name)

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

    def find(self, name: str, client_id: str) -> Client | None:
        """A member of a group by its client id."""
        group = self._groups.get(name)
        clients = () if group is None else group.clients.values()
        return next((one for one in clients if one.client_id == client_id), None)


class Producers:
    """The producers that are connected, by group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Connection, Client]] = {}
        self._by_connection: dict[Connection, set[str]] = {}
        self._by_id: dict[str, Connection] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def of(self, name: str) -> list[Client]:
        """The producers of a group."""
        return list(self._groups.get(name, {}).values())

    def register(self, client: Client, name: str) -> None:
        """Notes a heart-beat of a producer."""
        self._groups.setdefault(name, {})[client.connection] = client
        self._by_connection.setdefault(client.connection, set()).add(name)
        self._by_id[client.client_id] = client.connection

    def find(self, client_id: str) -> Connection | None:
        """The connection of the producer with this client id."""
        found = self._by_id.get(client_id)
        return None if found is None or found.closed else found

    def unregister(self, connection: Connection, name: str) -> None:
        """Removes a producer from a group."""
        members = self._groups.get(name, {})
        client = members.pop(connection, None)
        names = self._by_connection.get(connection, set())
        names.discard(name)
        if not names:
            self._by_connection.pop(connection, None)
        if client is not None and self._by_id.get(client.client_id) is connection:
            del self._by_id[client.client_id]
        if not members:
            self._groups.pop(name, None)

    def disconnected(self, connection: Connection) -> None:
        """Removes a connection from all groups."""
        for name in list(self._by_connection.get(connection, ())):
            self.unregister(connection, name)
