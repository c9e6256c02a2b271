"""Requests and their replies: the properties by which a reply finds the client that has asked.

A request is a message with CORRELATION_ID, REPLY_TO_CLIENT, TTL and CLUSTER; a reply has the first
three of its request, and MSG_TYPE (RocketMQ: `MQProducer.request`, `MessageUtil`).

| property | of | value |
|---|---|---|
| CORRELATION_ID | both | what tells the requests of a client apart |
| REPLY_TO_CLIENT | both | the id of the client that has asked |
| TTL | both | how long it waits for the reply (ms, whole) |
| CLUSTER | request | the cluster to whose topic of replies RocketMQ's clients reply |
| MSG_TYPE | reply | `reply` |

A client of the store has an id that begins with LOCAL. Replies to it, and all replies of clients of
the store, are messages in rmq_sys_silomq_replies. Queue 0 has those to clients on the network. The
others are for clients of the store: each reads the queue that follows from its id.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"
REPLY: Final = "reply"
#: The ids of clients of the store begin so.
LOCAL: Final = "silomq-local:"
#: The queue of replies to clients on the network, and how many queues there are.
NETWORK_QUEUE: Final = 0
REPLY_QUEUES: Final = 9
#: The longest TTL that counts (ms): RocketMQ's clients wait for seconds.
MOST_TTL_MS: Final = 24 * 3_600_000
_DIGITS: Final = 18


def reply_queue(client_id: str, queues: int) -> int:
    """The queue of replies to a client, if the topic has so many queues."""
    if not client_id.startswith(LOCAL) or queues == 1:
        return NETWORK_QUEUE
    return 1 + zlib.crc32(client_id.encode("utf-8", "replace")) % (queues - 1)


def reply_properties(request: Mapping[str, str]) -> dict[str, str] | None:
    """The properties of a reply to a message with these properties; None if that is no request."""
    if not request.get(CORRELATION_ID) or not request.get(REPLY_TO_CLIENT):
        return None
    kept = {
        name: request[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if name in request
    }
    return {MESSAGE_TYPE: REPLY, **kept}


def ttl_ms(properties: Mapping[str, str]) -> int:
    """How long a client waits for its reply; 0 if the message does not say."""
    text = properties.get(TTL, "")
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return 0
    return min(int(text), MOST_TTL_MS)
