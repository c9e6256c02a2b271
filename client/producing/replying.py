"""Replies to requests (RocketMQ: `MessageUtil.createReplyMessage`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ...store.errors import IllegalArgument
from ...store.names import REPLIES_TOPIC
from ...store.record.properties import encode_properties
from ...store.record.requests import (
    CORRELATION_ID,
    REPLY_TO_CLIENT,
    reply_properties,
    reply_queue,
)
from .. import arguments
from ._sender import session_of
from ._with_pairs import send_with_pairs
from .message_properties import Delayed

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ..arguments import Own
    from ._future import SendFuture
    from ._message import Message
    from ._sender import Sender

#: Stands for the topic of replies in a producer's routes.
REPLIES = Delayed(REPLIES_TOPIC, "")


class Request(Protocol):
    """A message that was consumed, such as a MessageView."""

    @property
    def properties(self) -> dict[str, str]: ...


def reply(
    producer: Sender,
    request: Request,
    body: Buffer | str | Message,
    *,
    tags: str | None,
    keys: str | Iterable[str] | None,
    properties: Mapping[str, str] | None,
    flag: int,
    timeout: float | Own | None,
) -> SendFuture:
    """See `Producer.reply_async`."""
    asked: object = getattr(request, "properties", None)
    if not isinstance(asked, Mapping):
        arguments.refuse_type("request", request, "a message that was consumed")
    pairs = reply_properties(asked)
    if pairs is None:
        raise IllegalArgument(
            f"request: this message is none, because it lacks the property {CORRELATION_ID} or "
            f"{REPLY_TO_CLIENT}; only a message that was sent by `request` can be replied to"
        )
    session = session_of(producer)
    route = session.routes.get(REPLIES) or session.open_topic(REPLIES)
    return send_with_pairs(
        producer,
        REPLIES,
        body,
        encode_properties(pairs),
        tags=tags,
        keys=keys,
        properties=properties,
        flag=flag,
        queue=reply_queue(pairs[REPLY_TO_CLIENT], len(route.slots)),
        timeout=timeout,
    )
