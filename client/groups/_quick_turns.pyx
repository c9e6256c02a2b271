# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`QuickTurns`: how a member reads, and calls back, while messages come one at a time.

They look at shared words and at what is mapped, and at nothing else. They end when there is
something else to do, and `GroupReader` does it. The store has changed the assignment, for instance;
a file must be opened, a hole passed, a lease given back, or the session looked at.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint64_t

from silomq.client.consuming._mapped_queue cimport MappedQueue
from silomq.client.consuming._message_view cimport MessageView
from silomq.client.groups._assigned_queue cimport AssignedQueue
from silomq.shm._words cimport Word

from ...store.errors import Corrupt
from .messages_ahead import MessagesAhead

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    int64_t silo_monotonic_ns()
    int silo_futex_wait_any(const void *const *words, const uint64_t *seen, int count,
                            int64_t timeout_ns)

# A listener that never sleeps leaves its turns after this time, and begins others.
cdef int64_t LONGEST_NS = 50_000_000
# No time to wait is longer, s.
cdef double LATEST_S = 9e9
cdef enum:
    MOST_WORDS = 128    # FUTEX_MOST


cdef class QuickTurns:
    """Turns over the queues of one assignment, with the lock of their reader. `words` are those of
    its `Membership`, the notice first. `selections` are the filters of `queues`, one for each.
    `wrote` is the control word of that name.

    `closed` says that nothing more is acknowledged.
    """

    cdef readonly list words
    cdef int64_t found, missed, messages
    cdef public bint closed
    cdef object lock
    cdef list queues, selections
    cdef Word wrote
    cdef const void *at[MOST_WORDS]
    cdef uint64_t seen[MOST_WORDS]
    cdef int count
    cdef Py_ssize_t turn
    cdef AssignedQueue queue            # whose messages `take` has returned
    cdef uint64_t notice
    cdef int64_t most_written, sleep_until

    def __init__(self, lock, list words not None, list queues not None, list selections not None,
                 Word wrote not None):
        cdef int i
        self.count = len(words)
        if self.count > MOST_WORDS or len(queues) != len(selections):
            raise ValueError(f"{self.count} words, {len(selections)} filters: {len(queues)} queues")
        self.lock, self.words, self.queues, self.selections = lock, words, queues, selections
        self.wrote = wrote
        for i in range(self.count):
            self.at[i] = (<Word?>words[i]).p

    def take_counts(self):
        """(reads that found messages, reads that found none, messages) since the last call."""
        counts = self.found, self.missed, self.messages
        self.found = self.missed = self.messages = 0
        return counts

    cdef void look(self) noexcept nogil:
        cdef int i
        for i in range(self.count):
            self.seen[i] = silo_load(self.at[i])  # SYNC: arrival observe

    cdef list take(self, int64_t limit, int64_t max_bytes):
        """Messages of the next queue that has some; an empty list if none has. None if a queue must
        be read in another way.
        """
        cdef Py_ssize_t i, at, number = len(self.queues)
        cdef list found
        for i in range(number):
            at = (self.turn + i) % number
            self.queue = <AssignedQueue?>self.queues[at]
            if (<MappedQueue?>self.queue.cursor).is_at_end():
                continue
            found = self.queue.take_mapped(self.selections[at], limit, max_bytes)
            if found is None:
                return None
            if found:
                self.turn = at + 1
                self.found += 1
                self.messages += len(found)
                return found
        self.missed += 1
        return []

    def begin(self, uint64_t notice, int64_t most_written, double sleep_until_s):
        """Sets how far the next turns may go. They end when the store has given another notice than
        `notice`. They sleep while `wrote` is at most `most_written`, and no longer than until
        `sleep_until_s` (seconds of CLOCK_MONOTONIC): then the session must be looked at.
        """
        self.notice, self.most_written = notice, most_written
        self.sleep_until = <int64_t>(sleep_until_s * 1e9)

    cdef list gather(self, set read, int64_t limit, int64_t max_bytes):
        """As `take`, but of as many queues as it takes, which are added to `read`."""
        cdef list found = [], messages
        cdef MessageView message
        while limit > 0 and max_bytes > 0:
            try:
                messages = self.take(limit, max_bytes)
            except Corrupt:
                if found:
                    break  # the next call raises
                raise
            except BaseException:  # the caller gets none of them, so they come again
                MessagesAhead(found).take_back({queue.queue: queue for queue in read})
                raise
            if not messages:
                if not found:
                    return messages
                if messages is not None:
                    self.missed -= 1
                break
            read.add(self.queue)
            found = found + messages if found else messages
            limit -= len(messages)
            if max_bytes != INT64_MAX:
                for message in messages:
                    max_bytes -= message.length
        return found

    cdef list next_messages(self, int64_t limit, int64_t max_bytes, int64_t deadline, listener,
                            ahead, set read):
        """Up to `limit` messages, with records of `max_bytes` bytes; sleeps until there are some,
        or the clock shows `deadline`. None if there is something else to do, or the listener, if
        any, is to end. They are of one queue, or of several, which are added to `read` if that is
        not None; and they are added to `ahead`, if that is not None.
        """
        cdef list messages
        cdef int64_t now, until = min(deadline, self.sleep_until)
        while True:
            with self.lock:
                self.look()
                if self.seen[0] != self.notice or self.closed:
                    return None
                if listener is not None and listener._stopping:
                    return None
                if read is None:
                    messages = self.take(limit, max_bytes)
                else:
                    messages = self.gather(read, limit, max_bytes)
                if messages and ahead is not None:
                    ahead.extend(messages)
            if messages is None or messages:
                return messages
            now = silo_monotonic_ns()
            if now >= deadline:
                return messages
            if now >= self.sleep_until or <int64_t>silo_load(self.wrote.p) > self.most_written:
                return None
            with nogil:
                silo_futex_wait_any(self.at, self.seen, self.count, until - now)

    def poll(self, set read not None, int64_t limit, int64_t max_bytes, double deadline_s):
        """Up to `limit` messages of the queues in turn, with records of `max_bytes` bytes together,
        but always one. Adds their queues to `read`. Waits for the first message until `deadline_s`
        (seconds of CLOCK_MONOTONIC), and returns an empty list then. None if there is something
        else to do.
        """
        cdef int64_t deadline = <int64_t>(min(deadline_s, LATEST_S) * 1e9)
        return self.next_messages(limit, max_bytes, deadline, None, None, read)

    def read_ahead(self, ahead not None, set read not None, int64_t limit):
        """Appends up to `limit` messages to `ahead`, and adds their queues to `read`. Returns
        whether there are some; waits for them until there is something else to do.
        """
        return self.next_messages(limit, INT64_MAX, INT64_MAX, None, ahead, read) is not None

    def call_back(self, listener not None, int64_t limit, int64_t max_bytes):
        """Calls back for messages until there is something else to do, or 50 ms have passed. Takes
        up to `limit` messages of a queue at once, with records of `max_bytes` bytes. Returns the
        queue and those of its messages that are left when the assignment changes; None if none are.
        """
        cdef int64_t until = silo_monotonic_ns() + LONGEST_NS
        cdef list messages
        while silo_monotonic_ns() < until:
            messages = self.next_messages(limit, max_bytes, INT64_MAX, listener, None, None)
            if messages is None:
                return None
            left = self.consume(listener, messages)
            if left is not None:
                return self.queue, left
            with nogil:
                pass  # other threads may run now
        return None

    cdef list consume(self, listener, list messages):
        """Calls back for messages of `queue`. Returns those that are left when the assignment
        changes, or None.
        """
        cdef AssignedQueue queue = self.queue
        cdef MessageView message
        cdef Py_ssize_t i
        cdef bint consumed
        for i in range(len(messages)):
            message = messages[i]
            if listener._stopping:
                return None
            if silo_load(self.at[0]) != self.notice:  # SYNC: notice observe
                return messages[i:]
            try:
                consumed = listener._callback(message) is not False
            except BaseException:
                listener._note_failure(message)
                consumed = False
            if consumed:
                with self.lock:
                    if not self.closed:
                        queue.acknowledge(message.queue_index)
            else:
                listener._send_back(message)
        return None
