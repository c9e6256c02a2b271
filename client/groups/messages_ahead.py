"""What an iteration has read and not yet given out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from ...store.groups.ack_file import Queue
from ..consuming.message_view import MessageView
from ._assigned_queue import AssignedQueue


class MessagesAhead(deque[MessageView]):
    """The last messages that were read of their queues, in order. The reader's lock guards them."""

    def take_back(self, assigned: Mapping[Queue, AssignedQueue]) -> None:
        """Rewinds the queues to the first of these messages, for whoever reads them next."""
        firsts: dict[Queue, int] = {}
        for message in self:
            firsts.setdefault(message.queue, message.queue_offset)
        self.clear()
        for queue, first in firsts.items():
            assigned[queue].take_back(first)

    def drop(self, queues: Collection[Queue]) -> None:
        """Forgets the messages of queues that this member gives back."""
        kept = [message for message in self if message.queue not in queues]
        self.clear()
        self.extend(kept)
