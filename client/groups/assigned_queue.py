"""A queue as a member of a consumer group holds it: what it has read, and acknowledged."""

from __future__ import annotations

from collections import deque

from ...store.groups.ack_file import AckWriter, Queue
from ..consuming.cursors import Cursor
from ..consuming.message_view import MessageView


class AssignedQueue:
    """One queue. Everything below `offset` is acknowledged, and what is in `beyond`; what was
    handed out and is not acknowledged stands in `out`, in order.
    """

    def __init__(self, queue: Queue, cursor: Cursor, writer: AckWriter, index: int) -> None:
        self.queue = queue
        self.cursor = cursor
        self.offset = writer.offset(index)
        self.beyond = writer.beyond(index)
        self.out: deque[int] = deque()
        # For a listener: messages with callbacks, one that is tried again and what follows it,
        # when (monotonic seconds), how often it was tried, and that the queue is to be given back.
        self.running = self.attempts = 0
        self.again: list[MessageView] = []
        self.resume_at = 0.0
        self.leaving = False
        self.take_over(writer, index)

    def take_over(self, writer: AckWriter, index: int) -> None:
        """The queue's place is in another ack file now."""
        self._writer = writer
        self._index = index
        self.window = writer.window

    @property
    def room(self) -> int:
        """How many messages may be handed out: what is acknowledged out of order must fit the
        window.
        """
        return self.offset + self.window - self.cursor.next

    def read(self, limit: int, codes: frozenset[int] | None, max_bytes: int) -> list[MessageView]:
        """The next messages that are not acknowledged yet."""
        while (count := min(limit, self.room)) > 0:
            found = self.cursor.read(count, codes, max_bytes)
            if self.beyond and found:
                fresh = [m for m in found if m.queue_offset not in self.beyond]
                if not fresh:
                    self.settle()
                    continue
                return fresh
            return found
        return []

    def hand_out(self, messages: list[MessageView]) -> None:
        """These are with the caller, who is to acknowledge each."""
        self.out.extend(m.queue_offset for m in messages)

    def hold(self, queue_offset: int) -> None:
        """What was read from here on is with the caller as a whole: the offset stays here until
        `acknowledge_all`.
        """
        self.out.append(queue_offset)

    def release(self) -> None:
        """Undoes the last `hold`: nothing that was read from there on was handed out."""
        self.out.pop()
        self.settle()

    def is_out(self, queue_offset: int) -> bool:
        """Whether the message was handed out and is not acknowledged."""
        out = self.out
        return bool(out) and out[0] <= queue_offset <= out[-1] and queue_offset not in self.beyond

    def acknowledge(self, queue_offset: int) -> bool:
        """False if the message is not out."""
        if not self.is_out(queue_offset):
            return False
        self.beyond.add(queue_offset)
        if queue_offset != self.out[0]:
            self._writer.mark(self._index, queue_offset)
        self.settle()
        return True

    def acknowledge_all(self) -> None:
        """Everything that was read so far."""
        self.out.clear()
        self.settle()

    def settle(self) -> None:
        """Moves the offset to the first message that is out, or behind all that was read."""
        out, beyond = self.out, self.beyond
        while out and out[0] in beyond:
            beyond.discard(out.popleft())
        offset = out[0] if out else self.cursor.next
        if offset > self.offset:
            if beyond and not out:  # what was acknowledged before this member had the queue
                beyond.difference_update([at for at in beyond if at < offset])
            self.offset = offset
            self._writer.move(self._index, offset)

    def rewind(self) -> None:
        """What was handed out and not acknowledged is to be read once more."""
        self.out.clear()
        self.again = []
        self.cursor.next = self.offset
        self.leaving = False
