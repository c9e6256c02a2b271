"""`AssignedQueue`: one queue of a group's member, with the offsets read and acknowledged."""

from __future__ import annotations

import enum
from collections import deque

from ...store.errors import CorruptRange
from ...store.groups.ack_file import AckWriter, Queue
from ..consuming.cursors import Cursor
from ..consuming.message_view import MessageView
from ..errors import TopicDeleted
from .subscription import Selection


class Out(enum.Enum):
    """What was handed out at a queue offset, and is not acknowledged."""

    MESSAGE = enum.auto()
    #: A message that a thread is sending back at this moment.
    GOING_BACK = enum.auto()
    #: The first message of a batch, which is acknowledged as a whole.
    BATCH = enum.auto()


class AssignedQueue:
    """One queue that the store has assigned to this member (RocketMQ: `ProcessQueue`).

    `offset` is the group's offset: every message below it is acknowledged, and so are those in
    `beyond`. Both are mirrored in the member's ack file, slot `index`, through `writer`.

    What was handed out stays out until it is acknowledged. `_order` holds its queue offsets,
    ascending; those of messages that were acknowledged out of order are still among them. The first
    of them is not acknowledged. `_out` says what each of the others is. The queue offsets of the
    last `hand_out` are in `_fresh` and not yet in these two. Most are acknowledged together with
    all others, and entries of their own would cost more than reading the messages.
    """

    def __init__(self, queue: Queue, cursor: Cursor, writer: AckWriter, index: int) -> None:
        self.queue = queue
        self.cursor = cursor
        self.offset = writer.offset(index)
        self.beyond = writer.beyond(index)
        self._order: deque[int] = deque()
        self._out: dict[int, Out] = {}
        self._fresh: range | list[int] = []
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

    @property
    def is_at_end(self) -> bool:
        """Whether there is nothing to read, as in most queues of a member that waits."""
        return self.cursor.end.load() <= self.cursor.next  # SYNC: queue-max observe

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

    def take(self, selection: Selection, limit: int, max_bytes: int) -> list[MessageView]:
        """The next messages that pass a filter, handed out; none when the topic was deleted. Raises
        otherwise as `Cursor.read`.
        """
        while True:
            before = self.cursor.next
            try:
                messages = selection.select(self.read(limit, selection.codes, max_bytes))
            except TopicDeleted:
                return []  # the store is about to revoke the queue
            if messages:
                self.hand_out(messages)
            if messages or self.cursor.next == before:
                return messages
            self.advance()

    def pass_hole(self, error: CorruptRange) -> None:
        """Goes on behind a declared hole, which counts as acknowledged: its messages exist no more,
        and the member is told of them once. While earlier messages are not acknowledged, `offset`
        stays before the hole, and the next owner of the queue is told again.
        """
        self.cursor.pass_hole(error)
        self.advance()

    # -- handing out

    def hand_out(self, messages: list[MessageView]) -> None:
        """Notes that the caller has these messages now, at least one."""
        self._note_fresh()
        first, last = messages[0].queue_offset, messages[-1].queue_offset
        if last - first + 1 == len(messages):
            self._fresh = range(first, last + 1)
        else:
            self._fresh = [message.queue_offset for message in messages]

    def _note_fresh(self) -> None:
        """Enters the messages of the last `hand_out` into `_order` and `_out`."""
        if self._fresh:
            offsets, self._fresh = self._fresh, []
            self._order.extend(offsets)
            self._out.update(dict.fromkeys(offsets, Out.MESSAGE))

    def take_back(self, first: int) -> None:
        """Undoes the handing out of all messages from queue offset `first` on: they are read again.
        The caller has shown none of them to the user.
        """
        self._note_fresh()
        while self._order and self._order[-1] >= first:
            self._out.pop(self._order.pop(), None)
        self.cursor.next = first

    def hand_out_batch(self, first: int) -> None:
        """Notes that the caller has everything that was read from queue offset `first` on, and
        acknowledges it as a whole (`acknowledge_all`).
        """
        self._note_fresh()
        self._order.append(first)
        self._out[first] = Out.BATCH

    def drop_batch(self) -> None:
        """Undoes the last `hand_out_batch`, because none of its messages passed the filter."""
        del self._out[self._order.pop()]
        self.advance()

    def rewind(self) -> None:
        """Rewinds to `offset`: messages that were handed out and not acknowledged are read
        again.
        """
        self._forget()
        self.suspended = []
        self.cursor.next = self.offset
        self.revoked = False

    def _forget(self) -> None:
        self._fresh = []
        self._order.clear()
        self._out.clear()

    # -- acknowledging

    def acknowledge(self, queue_offset: int) -> bool:
        """Acknowledges one message. Returns False and does nothing if it is not handed out, or is
        being sent back.
        """
        self._note_fresh()
        if self._out.get(queue_offset) is not Out.MESSAGE:
            return False
        self._acknowledge(queue_offset)
        return True

    def _acknowledge(self, queue_offset: int) -> None:
        del self._out[queue_offset]
        if queue_offset == self._order[0]:
            self.advance()
        else:
            self.beyond.add(queue_offset)
            self._writer.mark(self._index, queue_offset)

    def acknowledge_all(self) -> bool:
        """Acknowledges everything that was handed out. Returns False and does nothing while a
        message is being sent back: if that fails, it must not be acknowledged.
        """
        if Out.GOING_BACK in self._out.values():
            return False
        self._forget()
        self.advance()
        return True

    def advance(self) -> None:
        """Moves `offset` to the first message that is handed out and not acknowledged; if there is
        none, behind everything that was read.
        """
        order, beyond = self._order, self.beyond
        while order and order[0] not in self._out:
            beyond.discard(order.popleft())
        if order:
            offset = order[0]
        elif self._fresh:
            offset = self._fresh[0]
        else:
            offset = self.cursor.next
        if offset > self.offset:
            if beyond and not order:  # acknowledged by the member that had the queue before
                beyond.difference_update([at for at in beyond if at < offset])
            self.offset = offset
            self._writer.move(self._index, offset)

    # -- sending back

    def begin_return(self, queue_offset: int) -> bool:
        """Notes that a message is being sent back. Returns False if it is not handed out, or is
        being sent back by another thread.
        """
        self._note_fresh()
        if self._out.get(queue_offset) is not Out.MESSAGE:
            return False
        self._out[queue_offset] = Out.GOING_BACK
        return True

    def end_return(self, queue_offset: int, *, sent: bool) -> None:
        """Acknowledges a message that was sent back. If it was not sent, it is as handed out as
        before.
        """
        if self._out.get(queue_offset) is not Out.GOING_BACK:
            return  # the queue was rewound meanwhile
        if sent:
            self._acknowledge(queue_offset)
        else:
            self._out[queue_offset] = Out.MESSAGE
