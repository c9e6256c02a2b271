# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`MappedQueue`, the part of a queue that a reader has mapped; `take`, which makes messages of
queue entries; `unread`, which finds the queues that have messages to read.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from ...store.topics.topic_table import DELETED

# Why `take` ended. ALL: it examined all entries. FULL: it found as many messages or bytes as were
# asked for. ELSEWHERE: an entry points into another file of the log. BAD_ENTRY: an entry points to
# where no record can be.
ALL, FULL, ELSEWHERE, BAD_ENTRY = ENTRY_ALL, ENTRY_FULL, ENTRY_ELSEWHERE, ENTRY_BAD

cdef uint64_t NO_TOPIC = DELETED
cdef int32_t NO_CODE = 0


cdef int walk(silo_walk *w, const unsigned char *entries, int64_t number, int64_t first, Memory log,
              const int32_t[::1] codes, int64_t limit, int64_t max_bytes, list found) except -1:
    """As `take`. Adds the messages to `found`; `w.next` is the number of entries examined."""
    cdef int why
    memset(w, 0, sizeof(silo_walk))
    w.entries = entries
    w.number = number
    if log is not None:
        w.base = log.base
        w.end = log.end
    if codes is not None:
        w.code_count = codes.shape[0]
        w.codes = &codes[0] if w.code_count else &NO_CODE
    w.limit = limit
    w.max_bytes = max_bytes
    while True:
        why = silo_next_entry(w)
        if why != ENTRY_FOUND:
            return why
        found.append(view_of(log, w.at, w.size, first + w.next - 1))


def take(Memory log, const unsigned char[::1] entries not None, int64_t first, int64_t limit,
         const int32_t[::1] codes, int64_t max_bytes):
    """Makes views of the messages that the queue's `entries` lead to, as far as their records lie
    in `log` (None: no file is mapped yet). The first entry has queue offset `first`.

    Takes at most `limit` messages, with records of at most `max_bytes` bytes together, but always
    one. With `codes` (ascending) takes only messages whose tags code (low 32 bits, signed) is among
    them. Returns (messages, entries examined, why it ended). The reason is ALL, FULL, ELSEWHERE or
    BAD_ENTRY; the last two are about the entry after those examined.
    """
    cdef silo_walk w
    cdef list found = []
    cdef int64_t number = entries.shape[0] // ENTRY_SIZE
    cdef int why = walk(&w, &entries[0] if number else NULL, number, first, log, codes, limit,
                        max_bytes, found)
    return found, w.next, why


cdef class MappedQueue:
    """The part of a queue that a reader has mapped: one file of the queue, one of the commit log.

    `next` is the queue offset of the next message. `start` and `end` are shared words: the queue's
    least queue offset, and the queue offset behind its last message. `since` is the queue's word of
    that name in the topic table, `wrote` the control word.
    """

    def __init__(self, Word start not None, Word end not None, Word since not None,
                 Word wrote not None, int64_t at):
        self.start, self.end, self.since, self.wrote = start, end, since, wrote
        self.next = at

    def map_entries(self, const unsigned char[::1] entries, int64_t first):
        """Reads from now on in this file of the queue, whose first entry has queue offset `first`.
        None: in no file.
        """
        self.entries = entries
        self.first = self.behind = first
        if entries is not None:
            self.behind += entries.shape[0] // ENTRY_SIZE

    cdef bint is_at_end(self) noexcept:
        return <int64_t>silo_load(self.end.p) <= self.next  # SYNC: queue-max observe

    cpdef list take_mapped(self, int64_t limit, const int32_t[::1] codes, int64_t max_bytes):
        """The next messages, and moves `next`; arguments as for `take`. An empty list means that
        the queue's end was reached.

        None if that is not all: the topic was deleted, messages were removed unread, the next entry
        or record is not mapped or damaged, or append has gone on to another commit-log file. `next`
        may have moved over entries whose messages are not wanted.
        """
        cdef silo_walk w
        cdef list found = []
        cdef int64_t end, number
        if silo_load(self.since.p) == NO_TOPIC:
            return None
        if <int64_t>silo_load(self.start.p) > self.next:  # SYNC: queue-min observe
            return None
        end = <int64_t>silo_load(self.end.p)  # SYNC: queue-max observe
        if end <= self.next:
            return found
        if not self.first <= self.next < self.behind:
            return None
        if self.memory is None or <int64_t>silo_load(self.wrote.p) > self.memory.end:
            return None
        number = min(end, self.behind) - self.next
        walk(&w, &self.entries[ENTRY_SIZE * (self.next - self.first)], number, self.next,
             self.memory, codes, limit, max_bytes, found)
        self.next += w.next
        return found if found or self.next == end else None


def unread(list queues):
    """The indices of the MappedQueues that have messages to read, ascending."""
    cdef Py_ssize_t i
    return [i for i in range(len(queues)) if not (<MappedQueue?>queues[i]).is_at_end()]
