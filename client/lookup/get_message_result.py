"""`GetMessageResult`: what one read of a queue gave."""

from __future__ import annotations

from dataclasses import dataclass

from ...store.status import GetMessageStatus
from ..consuming.message_view import MessageView


@dataclass(frozen=True, slots=True)
class GetMessageResult:
    """What one read of a queue gave (RocketMQ's class of that name).

    `messages` are in the order of the queue; there are none unless `status` is FOUND. The next read
    begins at queue offset `next_begin_offset`. The queue held the queue offsets from `min_offset`
    up to, and without, `max_offset`.
    """

    status: GetMessageStatus
    messages: list[MessageView]
    next_begin_offset: int
    min_offset: int
    max_offset: int
