"""Which queues a client reads, and how: QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE and
GET_ALL_MESSAGE_REQUEST_MODE (RocketMQ's QueryAssignmentProcessor).

Only clients that let the broker divide ask this (`clientRebalance=false`). This broker knows its
own queues, and none of other brokers.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...shm.protocol.pops import SetMode
from ...store.config import request_modes
from ...store.config.request_modes import POP, PULL
from ...store.names import RETRY_PREFIX
from ..groups.heartbeats import BROADCASTING, ClientId, Name, decode
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from .calls import Call, Handlers, Refused
from .parts import Parts

_ANY: Final = -1
_PERM_READ: Final = 4


class Assignment(msgspec.Struct, rename="camel"):
    """The body of QUERY_ASSIGNMENT."""

    topic: Name
    consumer_group: Name
    client_id: ClientId
    strategy_name: str = "AVG"
    message_model: str | None = None


class Mode(msgspec.Struct, rename="camel"):
    """The body of SET_MESSAGE_REQUEST_MODE."""

    topic: Name
    consumer_group: Name
    mode: str = PULL
    pop_share_queue_num: int = 0


class AssignmentProcessor:
    """Divides queues among the clients of a group."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._name = parts.settings.broker_name

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.modes,
        }

    async def query(self, call: Call) -> Command:
        """The queues of a client in a topic, and whether it pulls or pops them."""
        asked: Assignment = decode(Assignment, call.request.body)
        mode, share = PULL, 0
        if not asked.topic.startswith(RETRY_PREFIX):
            for one in await self._parts.pops.modes():
                if (one.topic, one.group) == (asked.topic, asked.consumer_group):
                    mode, share = one.mode, one.share
        queues = self._queues(asked.topic)
        if asked.message_model != BROADCASTING:
            clients = await self._clients(asked.consumer_group)
            divided = divide_to_pop if mode == POP else divide
            queues = divided(asked.strategy_name, asked.client_id, queues, clients, share)
        found = [
            {
                "attachments": {},
                "messageQueue": {
                    "brokerName": self._name, "queueId": queue_id, "topic": asked.topic,
                },
                "mode": mode,
            }
            for queue_id in queues
        ]  # fmt: skip
        body = {"messageQueueAssignments": found} if found else {}
        return call.request.answer(body=msgspec.json.encode(body))

    def _queues(self, topic: str) -> list[int]:
        found = self._parts.link.find(topic)
        readable = found is not None and found.perm & _PERM_READ
        return list(range(found.read_queue_nums)) if found is not None and readable else []

    async def _clients(self, group: str) -> list[str]:
        """The client ids of a group, sorted as Java does."""
        progress, consumers = self._parts.progress, self._parts.consumers
        found = consumers.client_ids(group)
        if consumers.sharing(group)[0]:
            await progress.settle(group)
            shared = progress.shared.get(group)
            found = found if shared is None else shared.clients
        return sorted(set(found), key=lambda name: name.encode("utf-16-be", "surrogatepass"))

    async def set_mode(self, call: Call) -> Command:
        """Sets how a group reads a topic."""
        asked: Mode = decode(Mode, call.request.body)
        if asked.topic.startswith(RETRY_PREFIX):
            why = f"retry topic is not allowed to set mode: {asked.topic}"
            raise Refused(ResponseCode.NO_PERMISSION, why)
        if self._parts.link.find(asked.topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        settings = await self._parts.topics.group(asked.consumer_group, make=False)
        if not settings.known:
            why = f"subscription group does not exist: {asked.consumer_group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        share = min(max(0, asked.pop_share_queue_num), 2**31 - 1)
        mode: Any = asked.mode
        if mode not in (PULL, POP):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"mode {mode[:40]!a}: PULL or POP")
        await self._parts.pops.set_mode(SetMode(asked.topic, asked.consumer_group, mode, share))
        return call.request.answer()

    async def modes(self, call: Call) -> Command:
        """All modes that were set."""
        modes = {
            (one.topic, one.group): (one.mode, one.share) for one in await self._parts.pops.modes()
        }
        body = {"messageRequestModeMap": request_modes.table(modes)}
        return call.request.answer(body=msgspec.json.encode(body))


def divide(
    strategy: str, client: str, queues: list[int], clients: list[str], _: int = 0
) -> list[int]:
    """The queues of a client by RocketMQ's strategies AVG and AVG_BY_CIRCLE; none by others, and
    for a client that is not in the group.
    """
    if client not in clients or strategy not in ("AVG", "AVG_BY_CIRCLE"):
        return []
    index, count = clients.index(client), len(clients)
    if strategy == "AVG_BY_CIRCLE":
        return queues[index::count]
    size, more = divmod(len(queues), count)
    begin = index * size + min(index, more)
    return queues[begin : begin + size + (index < more)]


def divide_to_pop(
    strategy: str, client: str, queues: list[int], clients: list[str], share: int
) -> list[int]:
    """The queues that a client pops. With a `share` it has its own queues and those of so many
    clients behind it; without one, or when that is all clients, it has any queue (-1).
    """
    if share <= 0 or share >= len(clients) - 1:
        return [_ANY] if queues else []
    if client not in clients:
        return []
    if len(clients) > len(queues):
        return [queues[clients.index(client) % len(queues)]] if queues else []
    at = clients.index(client)
    found: list[int] = []
    for step in range(share + 1):
        found += divide(strategy, clients[(at + step) % len(clients)], queues, clients)
    return sorted(set(found))
