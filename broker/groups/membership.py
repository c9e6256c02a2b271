"""`Membership`: who must learn that members of a group came or went. The members do, and the store
does, which may have members of the group too.
"""

from __future__ import annotations

from ...store.errors import StoreError
from ..link.progress import Progress
from ..link.shared_groups import SharedGroups
from ..link.store import StoreLink
from ..link.topics import Topics
from ..loop._connection import Connection
from ..loop.tasks import start
from ..wire.codes import RequestCode
from ..wire.command import Command
from .consumers import Consumers
from .queue_locks import QueueLocks
from .relay import Relay


class Membership:
    """The `consumers`, and their groups' `progress`, each of which learns of the other."""

    def __init__(
        self, link: StoreLink, topics: Topics, locks: QueueLocks, relay: Relay, progress: Progress
    ) -> None:
        self._topics = topics
        self._relay = relay
        self._progress = progress
        self.consumers = Consumers(self._tell, progress.tell, self._left)
        progress.members = self.consumers.sharing
        progress.notify = lambda group: start(self._tell_all(group))
        progress.shared = SharedGroups(locks.is_held, self.consumers.is_broadcasting)
        link.began.append(lambda *_: self._name_all())

    def _tell(self, connections: list[Connection], group: str) -> None:
        """Tells members of a group that others came or went."""
        for connection in connections:
            command = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
            self._relay.tell(connection, command)

    async def _tell_all(self, group: str) -> None:
        """Tells the members of a group of others that are clients of the store, if it may."""
        try:
            settings = await self._topics.group(group, make=False)
        except StoreError:
            return
        found = self.consumers.get(group)
        if found is not None and settings.notify_consumer_ids_changed_enable:
            members = [who for who, client in found.clients.items() if not client.broadcasts]
            self._tell(members, group)

    def _left(self, connection: Connection, group: str) -> None:
        self._progress.shared.left(connection, group)
        self._progress.give_back()

    def _name_all(self) -> None:
        """Tells a new session with the store who is in which group."""
        for group in self.consumers:
            self._progress.tell(group.name)
