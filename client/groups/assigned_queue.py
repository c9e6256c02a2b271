"""`AssignedQueue`: one queue of a group's member, with the offsets read and acknowledged."""

from __future__ import annotations

from collections import deque

from ...store.groups.ack_file import AckWriter, Queue
from ..consuming.cursors import Cursor
from ..consuming.message_view import MessageView


class AssignedQueue:
    """One queue that the store has assigned to this member (RocketMQ: `ProcessQueue`).

    `offset` is the group's offset: every message below it is acknowledged, and so are those in
    `beyond`. `handed_out` holds the queue offsets that the caller has, ascending. The first of them
    is not acknowledged.

    `offset` and `beyond` are mirrored in the member's ack file, slot `index`, through `writer`.
    """

    def __init__(self, queue: Queue, cursor: Cursor, writer: AckWriter, index: int) -> None:
        self.queue = queue
        self.cursor = cursor
        self.offset = writer.offset(index)
        self.beyond = writer.beyond(index)
        self.handed_out: deque[int] = deque()
        # For a listener: how many messages are queued or in callbacks, the messages to try again
        # with those that follow them, when (monotonic seconds) and after how many tries; and
        # whether the store has revoked the queue.
        self.in_work = self.tries = 0
        self.suspended: list[MessageView] = []
        self.resume_at = 0.0
        self.revoked = False
        self.move_to(writer, index)

    def move_to(self, writer: AckWriter, index: int) -> None:
        """Keeps the queue's progress in slot `index` of another ack file from now on."""
        self._writer = writer
        self._index = index
        self.window = writer.window

    @property
    def room(self) -> int:
        """How many more messages may be handed out. Acknowledgements that come out of order must
        fit into the ack file's window behind `offset`.
        """
        return self.offset + self.window - self.cursor.next

    def read(self, limit: int, codes: frozenset[int] | None, max_bytes: int) -> list[MessageView]:
        """The next messages that are not acknowledged yet; arguments and errors as for
        `Cursor.read`.
        """
        while (count := min(limit, self.room)) > 0:
            found = self.cursor.read(count, codes, max_bytes)
            if self.beyond and found:
                fresh = [m for m in found if m.queue_offset not in self.beyond]
                if not fresh:
                    self.advance()
                    continue
                return fresh
            return found
        return []

    def hand_out(self, messages: list[MessageView]) -> None:
        """Notes that the caller has these messages now and acknowledges each of them."""
        self.handed_out.extend(m.queue_offset for m in messages)

    def hand_out_batch(self, first: int) -> None:
        """Notes that the caller has everything that was read from queue offset `first` on, and
        acknowledges it as a whole (`acknowledge_all`).
        """
        self.handed_out.append(first)

    def drop_batch(self) -> None:
        """Undoes the last `hand_out_batch`, because none of its messages passed the filter."""
        self.handed_out.pop()
        self.advance()

    def is_handed_out(self, queue_offset: int) -> bool:
        """Whether the caller has this message and has not acknowledged it."""
        handed_out = self.handed_out
        return (
            bool(handed_out)
            and handed_out[0] <= queue_offset <= handed_out[-1]
            and queue_offset not in self.beyond
        )

    def acknowledge(self, queue_offset: int) -> bool:
        """Acknowledges one message. Returns False and does nothing if it is not handed out."""
        if not self.is_handed_out(queue_offset):
            return False
        self.beyond.add(queue_offset)
        if queue_offset != self.handed_out[0]:
            self._writer.mark(self._index, queue_offset)
        self.advance()
        return True

    def acknowledge_all(self) -> None:
        """Acknowledges everything that was read so far."""
        self.handed_out.clear()
        self.advance()

    def advance(self) -> None:
        """Moves `offset` to the first message that is handed out and not acknowledged; if there is
        none, behind everything that was read.
        """
        handed_out, beyond = self.handed_out, self.beyond
        while handed_out and handed_out[0] in beyond:
            beyond.discard(handed_out.popleft())
        offset = handed_out[0] if handed_out else self.cursor.next
        if offset > self.offset:
            if beyond and not handed_out:  # acknowledged by the member that had the queue before
                beyond.difference_update([at for at in beyond if at < offset])
            self.offset = offset
            self._writer.move(self._index, offset)

    def rewind(self) -> None:
        """Rewinds to `offset`: messages that were handed out and not acknowledged are read
        again.
        """
        self.handed_out.clear()
        self.suspended = []
        self.cursor.next = self.offset
        self.revoked = False
