"""`Topics`: the topics to which the broker may write, and the settings of groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ...client.lookup.open_store import OpenStore
from ...client.producing.message_properties import Delayed
from ...client.session import Connection
from ...shm.protocol.answers import GroupSettings
from ...shm.protocol.requests import (
    Alter,
    Open,
    OpenDelayed,
    OpenGroup,
    OpenReplies,
    OpenRetry,
    OpenTransaction,
)
from ...store.names import (
    REPLIES_TOPIC,
    TIMER_TOPIC,
    TRANS_END_TOPIC,
    TRANS_HALF_TOPIC,
    dead_letter_topic,
    is_system_topic,
    retry_topic,
)
from ..loop.tasks import Waiter, start
from .store import StoreLink

T = TypeVar("T")

#: How long the settings of a group are taken as known (s): tools of RocketMQ may change them.
GROUP_S: Final = 5.0
#: The settings of so many groups are remembered, known groups and names that are none.
_MOST_GROUPS: Final = 10_000
_READ_AND_WRITE: Final = 6


class Topics:
    """What the registry has opened for this session. Callers that wait for the same topic go on in
    the order in which they asked, so that messages keep theirs.
    """

    def __init__(self, link: StoreLink) -> None:
        self._link = link
        self._routes: dict[str | Delayed, tuple[int, ...]] = {}
        self._groups: dict[str, tuple[float, GroupSettings]] = {}
        self._asked: dict[object, list[Waiter[Any]]] = {}
        #: Called when all topics are to be asked for again.
        self.forgotten: list[Callable[[], None]] = []
        link.began.append(self._forget)

    def _forget(self, _: Connection, __: OpenStore) -> None:
        self.forget()

    def forget(self) -> None:
        """Asks for every topic again: the right to write to one may have been taken back."""
        self._routes.clear()
        self._groups.clear()
        for call in self.forgotten:
            call()

    async def route(self, topic: str | Delayed) -> tuple[int, ...]:
        """The slots of a topic's queues, by queue id, for writing. For a Delayed those of the topic
        where messages wait. Raises IllegalMessage, StoreGone.
        """
        found = self._routes.get(topic)
        return found if found is not None else await self._once(topic, lambda: self._open(topic))

    async def _open(self, topic: str | Delayed) -> tuple[int, ...]:
        if isinstance(topic, Delayed) and topic.system in (TRANS_HALF_TOPIC, TRANS_END_TOPIC):
            opened = await self._link.ask(OpenTransaction(topic.topic))
            slots = opened.half if topic.system == TRANS_HALF_TOPIC else opened.decisions
        elif isinstance(topic, Delayed) and topic.system == REPLIES_TOPIC:
            slots = (await self._link.ask(OpenReplies())).slots
        elif isinstance(topic, Delayed):
            timer = topic.system == TIMER_TOPIC
            slots = (await self._link.ask(OpenDelayed(topic.topic, timer=timer))).delayed
        else:
            slots = (await self._link.ask(Open(topic, write=True))).slots
        self._routes[topic] = slots
        return slots

    async def retry(self, group: str, *, dead: bool = False) -> str:
        """The name of a group's retry topic, or its dead-letter topic, made if it is missing."""
        name = dead_letter_topic(group) if dead else retry_topic(group)
        if name not in self._routes:
            await self._once(name, lambda: self._open_retry(name, group, dead=dead))
        return name

    async def _open_retry(self, name: str, group: str, *, dead: bool) -> tuple[int, ...]:
        slots = (await self._link.ask(OpenRetry(group, dead=dead))).slots
        self._routes[name] = slots
        return slots

    async def create(self, topic: str, queues: int, perm: int = _READ_AND_WRITE) -> None:
        """Makes a topic with so many queues, if it is missing. Raises IllegalMessage, StoreGone."""
        if self._link.find(topic) is None:
            await self._once(("create", topic), lambda: self._create(topic, queues, perm))

    async def _create(self, topic: str, queues: int, perm: int) -> None:
        if is_system_topic(topic):
            # A topic for traces is the store's own. The registry makes it for whoever writes to it.
            await self._link.ask(Open(topic, write=True))
        else:
            await self._link.ask(Alter(topic, queues, queues, perm))

    async def group(self, name: str, *, make: bool, age_s: float = GROUP_S) -> GroupSettings:
        """The settings of a group, as they were `age_s` ago at most. With `make` a new group gets
        RocketMQ's defaults.
        """
        found = self._groups.get(name)
        oldest = time.monotonic() - age_s
        if found is not None and found[0] > oldest and (found[1].known or not make):
            return found[1]
        return await self._once(("group", name, make), lambda: self._open_group(name, make=make))

    async def _open_group(self, name: str, *, make: bool) -> GroupSettings:
        settings = await self._link.ask(OpenGroup(name, make=make))
        if len(self._groups) >= _MOST_GROUPS:
            self._groups.clear()
        self._groups[name] = time.monotonic(), settings
        return settings

    async def _once(self, what: object, ask: Callable[[], Coroutine[Waiter[Any], None, T]]) -> T:
        """The result of `ask`, of one call for all who want the same meanwhile."""
        waiter: Waiter[T] = Waiter()
        waiting = self._asked.setdefault(what, [])
        waiting.append(waiter)
        if len(waiting) == 1:
            start(self._answer(what, ask))
        return await waiter

    async def _answer(
        self, what: object, ask: Callable[[], Coroutine[Waiter[Any], None, Any]]
    ) -> None:
        try:
            result = await ask()
        except Exception as error:  # noqa: BLE001 - those who wait get it
            for waiter in self._asked.pop(what):
                waiter.fail(error)
        else:
            for waiter in self._asked.pop(what):
                waiter.set(result)
