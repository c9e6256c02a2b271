# The declarations of the part of a queue that a reader has mapped, from the shared headers.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from silomq.client.consuming._message_view cimport Memory, MessageView, view_of
from silomq.shm._words cimport Word

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)

cdef extern from "store/consumequeue/entries.h" nogil:
    ctypedef struct silo_walk:
        const uint8_t *entries
        int64_t number, next
        const int32_t *codes
        int64_t code_count, base, end, limit, max_bytes, at, size
    int ENTRY_FOUND, ENTRY_ALL, ENTRY_FULL, ENTRY_ELSEWHERE, ENTRY_BAD, ENTRY_SIZE
    int silo_next_entry(silo_walk *w)


cdef class MappedQueue:
    cdef public int64_t next        # queue offset
    cdef public Memory memory       # the mapped commit-log file, or None
    cdef readonly Word start, end   # shared words of the queue: see Cursor
    cdef Word since, wrote
    cdef const unsigned char[::1] entries   # the mapped file of the queue, or None
    cdef int64_t first, behind      # queue offsets: of its first entry, and behind its last one

    cdef bint is_at_end(self) noexcept
    cpdef list take_mapped(self, int64_t limit, const int32_t[::1] codes, int64_t max_bytes)
