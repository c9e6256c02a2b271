# cython: language_level=3, cdivision=True
"""`AssignedQueue`: one queue of a group's member, with the offsets read and acknowledged."""

import enum
from collections import deque

from libc.stdint cimport int64_t

from silomq.client.consuming._mapped_queue cimport MappedQueue
from silomq.client.consuming._message_view cimport MessageView

from ...store.errors import Corrupt
from ..errors import TopicDeleted


class Out(enum.Enum):
    """What was handed out at a queue offset, and is not acknowledged."""

    MESSAGE = enum.auto()
    #: A message that a thread is sending back at this moment.
    GOING_BACK = enum.auto()
    #: The first message of a batch, which is acknowledged as a whole.
    BATCH = enum.auto()


cdef class AssignedQueue:
    """One queue that the store has assigned to this member (RocketMQ: `ProcessQueue`).

    `offset` is the group's offset: every message below it is acknowledged, and so are those in
    `beyond`. Both are mirrored in the member's ack file, slot `index`, through `writer`.

    What was handed out stays out until it is acknowledged. `order` holds its queue offsets,
    ascending; those of messages that were acknowledged out of order are still among them. The first
    of them is not acknowledged. `out` says what each of the others is. The queue offsets of the
    last `hand_out` are not yet in these two: they are those from `fresh` on and below `behind`, or
    in `scattered`. Most are acknowledged in order or together with all others, and entries of their
    own would cost more than reading the messages.
    """

    def __init__(self, tuple queue not None, cursor, writer, int64_t index):
        self.queue = queue
        self.cursor = cursor
        self.offset = writer.offset(index)
        self.beyond = writer.beyond(index)
        self.order = deque()
        self.out = {}
        self.scattered = []
        # For a listener: how many messages are queued or in callbacks, the messages to try again
        # with those that follow them, when (monotonic seconds) and after how many tries; and
        # whether the store has revoked the queue.
        self.suspended = []
        self.move_to(writer, index)

    def move_to(self, writer, int64_t index):
        """Keeps the queue's progress in slot `index` of another ack file from now on."""
        self.writer = writer
        self.index = index
        self.window = writer.window

    @property
    def room(self):
        """How many more messages may be handed out. Acknowledgements that come out of order must
        fit into the ack file's window behind `offset`.
        """
        return self.offset + self.window - self.cursor.next

    def read(self, limit, codes, max_bytes):
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

    def take(self, selection, limit, max_bytes):
        """The next messages that pass a filter, handed out; none when the topic was deleted. Raises
        otherwise as `Cursor.read`.
        """
        while True:
            before = self.cursor.next
            try:
                messages = self.read(limit, selection.codes, max_bytes)
            except TopicDeleted:
                return []  # the store is about to revoke the queue
            messages = self.select(selection, messages, before)
            if messages:
                self.hand_out(messages)
            if messages or self.cursor.next == before:
                return messages
            self.advance()

    cdef list take_mapped(self, object selection, int64_t limit, int64_t max_bytes):
        """As `take`, without opening or mapping a file, and without a look at checksums. None if
        `take` must be asked (`MappedQueue.take_mapped`).
        """
        cdef MappedQueue cursor = self.cursor
        cdef int64_t before, count
        cdef list found, wanted
        while True:
            before = cursor.next
            count = min(limit, self.offset + self.window - before)
            if self.beyond or count <= 0:
                return None
            found = cursor.take_mapped(count, selection.chosen, max_bytes)
            wanted = self.select(selection, found, before) if found else found
            if wanted:
                self.hand_out(wanted)
                return wanted
            if cursor.next != before:
                self.advance()
            if not found:
                return found

    cdef list select(self, selection, list found, int64_t before):
        """Those of `found` that pass the filter. When it fails, `next` is where it was `before`. A
        damaged message ends the others: the next read begins with it, and raises Corrupt.
        """
        cdef Py_ssize_t i
        if selection.takes_all:
            return found
        try:
            return selection.select(found)
        except Corrupt:
            i = self.find_damage(selection, found)
            self.cursor.next = (<MessageView?>found[i]).queue_index
            if i == 0:
                raise
            return selection.select(found[:i])
        except BaseException:
            self.cursor.next = before
            raise

    cdef Py_ssize_t find_damage(self, selection, list found) except -1:
        """The index of the first message on which the filter fails."""
        cdef Py_ssize_t i
        for i in range(len(found)):
            try:
                selection.select(found[i : i + 1])
            except Corrupt:
                break
        return i

    def pass_hole(self, error):
        """Goes on behind a declared hole, which counts as acknowledged: its messages exist no more,
        and the member is told of them once. While earlier messages are not acknowledged, `offset`
        stays before the hole, and the next owner of the queue is told again.
        """
        self.cursor.pass_hole(error)
        self.advance()

    # -- handing out

    cpdef hand_out(self, list messages):
        """Notes that the caller has these messages now, at least one."""
        cdef int64_t first = (<MessageView?>messages[0]).queue_index
        cdef int64_t last = (<MessageView?>messages[len(messages) - 1]).queue_index
        self.note_fresh()
        if last - first + 1 == len(messages):
            self.fresh, self.behind = first, last + 1
        else:
            self.scattered = [message.queue_offset for message in messages]

    cdef int note_fresh(self) except -1:
        """Enters the messages of the last `hand_out` into `order` and `out`."""
        if self.fresh < self.behind:
            offsets = range(self.fresh, self.behind)
        elif self.scattered:
            offsets = self.scattered
        else:
            return 0
        self.fresh = self.behind = 0
        self.scattered = []
        self.order.extend(offsets)
        self.out.update(dict.fromkeys(offsets, Out.MESSAGE))
        return 0

    def take_back(self, int64_t first):
        """Undoes the handing out of all messages from queue offset `first` on: they are read again.
        The caller has shown none of them to the user.
        """
        self.note_fresh()
        while self.order and self.order[-1] >= first:
            self.out.pop(self.order.pop(), None)
        self.cursor.next = first

    def hand_out_batch(self, int64_t first):
        """Notes that the caller has everything that was read from queue offset `first` on, and
        acknowledges it as a whole (`acknowledge_all`).
        """
        self.note_fresh()
        self.order.append(first)
        self.out[first] = Out.BATCH

    def drop_batch(self):
        """Undoes the last `hand_out_batch`, because none of its messages passed the filter."""
        del self.out[self.order.pop()]
        self.advance()

    def rewind(self):
        """Rewinds to `offset`: messages that were handed out and not acknowledged are read
        again.
        """
        self.forget()
        self.suspended = []
        self.cursor.next = self.offset
        self.revoked = False

    cdef int forget(self) except -1:
        self.fresh = self.behind = 0
        self.scattered = []
        self.order.clear()
        self.out.clear()
        return 0

    # -- acknowledging

    cpdef bint acknowledge(self, int64_t queue_offset) except -1:
        """Acknowledges one message. Returns False and does nothing if it is not handed out, or is
        being sent back.
        """
        if self.fresh == queue_offset and self.fresh < self.behind and not self.order:
            self.fresh += 1  # as nearly always: the first of all that are handed out
            self.advance()
            return True
        self.note_fresh()
        if self.out.get(queue_offset) is not Out.MESSAGE:
            return False
        self.settle(queue_offset)
        return True

    cdef int settle(self, int64_t queue_offset) except -1:
        del self.out[queue_offset]
        if queue_offset == self.order[0]:
            self.advance()
        else:
            self.beyond.add(queue_offset)
            self.writer.mark(self.index, queue_offset)
        return 0

    def acknowledge_all(self):
        """Acknowledges everything that was handed out. Returns False and does nothing while a
        message is being sent back: if that fails, it must not be acknowledged.
        """
        if Out.GOING_BACK in self.out.values():
            return False
        self.forget()
        self.advance()
        return True

    cpdef advance(self):
        """Moves `offset` to the first message that is handed out and not acknowledged; if there is
        none, behind everything that was read.
        """
        cdef int64_t offset
        cdef bint none_out
        while self.order and self.order[0] not in self.out:
            self.beyond.discard(self.order.popleft())
        none_out = not self.order
        if not none_out:
            offset = self.order[0]
        elif self.fresh < self.behind:
            offset = self.fresh
        elif self.scattered:
            offset = self.scattered[0]
        else:
            offset = self.cursor.next
        if offset > self.offset:
            if self.beyond and none_out:  # acknowledged by the member that had the queue before
                self.beyond.difference_update([at for at in self.beyond if at < offset])
            self.offset = offset
            self.writer.move(self.index, offset)

    # -- sending back

    def begin_return(self, int64_t queue_offset):
        """Notes that a message is being sent back. Returns False if it is not handed out, or is
        being sent back by another thread.
        """
        self.note_fresh()
        if self.out.get(queue_offset) is not Out.MESSAGE:
            return False
        self.out[queue_offset] = Out.GOING_BACK
        return True

    def end_return(self, int64_t queue_offset, *, bint sent):
        """Acknowledges a message that was sent back. If it was not sent, it is as handed out as
        before.
        """
        if self.out.get(queue_offset) is not Out.GOING_BACK:
            return  # the queue was rewound meanwhile
        if sent:
            self.settle(queue_offset)
        else:
            self.out[queue_offset] = Out.MESSAGE
