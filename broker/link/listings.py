"""`Listings`: what the store's registry knows of all topics and groups, for RocketMQ's tools."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...shm.protocol.admin_requests import AskGroupConfigs, AskOffsets, AskReaders, AskSettings
from ...shm.protocol.answers import (
    TopicEntry,
    Version,
)
from ...shm.protocol.requests import AskGroup, AskProgress, AskTopic, AskTopics
from ...store.errors import IllegalMessage
from .store import StoreLink

#: How far a group is: by topic, then by queue id.
Offsets = dict[str, dict[int, int]]


class Groups(NamedTuple):
    """The settings of groups, and what is forbidden them, as RocketMQ's file has both, and its
    version.
    """

    configs: dict[str, dict[str, Any]]
    forbidden: dict[str, dict[str, int]]
    version: Version


class Listings:
    """Asks the registry anew each time. Every method raises StoreGone."""

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    async def topic(self, name: str) -> TopicEntry | None:
        """A topic with its attributes, None if there is none."""
        if self._link.find(name) is None:
            return None
        try:
            return (await self._link.ask(AskTopic(name))).topic
        except IllegalMessage:  # it was deleted just now
            return None

    async def topics(self) -> tuple[list[TopicEntry], Version]:
        """All topics by name, and the version of the file that keeps them."""
        found: dict[str, TopicEntry] = {}
        after = 0
        while True:
            page = await self._link.ask(AskTopics(after))
            found |= {one.topic: one for one in page.topics}
            if page.next < 0:
                return [found[name] for name in sorted(found)], page.version
            after = page.next

    async def group(self, name: str) -> dict[str, Any] | None:
        """The settings of one group, as RocketMQ's file has them; None if there is none."""
        return (await self._link.ask(AskGroupConfigs(only=name))).configs.get(name)

    async def groups(self) -> Groups:
        """All groups by name."""
        found: dict[str, dict[str, Any]] = {}
        forbidden: dict[str, dict[str, int]] = {}
        while True:
            page = await self._link.ask(AskGroupConfigs(max(found, default="")))
            found |= page.configs
            forbidden |= page.forbidden
            if not page.more:
                return Groups(found, forbidden, page.version)

    async def offsets(self, group: str) -> Offsets:
        """How far a group is. Nothing for an unknown one."""
        found: Offsets = {}
        count = 0
        while True:
            try:
                page = await self._link.ask(AskGroup(group, count))
            except IllegalMessage:
                return found
            for queue in page.queues:
                found.setdefault(queue.topic, {})[queue.queue_id] = queue.offset
            count += len(page.queues)
            if not page.more:
                return found

    async def all_offsets(self) -> dict[str, Offsets]:
        """How far all groups are."""
        found: dict[str, Offsets] = {}
        while True:
            page = await self._link.ask(AskOffsets(max(found, default="")))
            found |= page.offsets
            if not page.more:
                return found

    async def offsets_in(self, group: str, topic: str) -> dict[int, int]:
        """How far a group is in a topic, by queue id."""
        return (await self._link.ask(AskProgress(group, topic))).offsets

    async def readers(self, topic: str) -> list[str]:
        """The groups that have begun in a topic."""
        return (await self._link.ask(AskReaders(topic))).groups

    async def settings(self) -> dict[str, str]:
        """The store's settings under RocketMQ's names."""
        return (await self._link.ask(AskSettings())).settings
