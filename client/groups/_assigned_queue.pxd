# The state of a queue that the store has assigned to a member.

from libc.stdint cimport int64_t, uint64_t

from silomq.client.consuming._mapped_queue cimport MappedQueue


cdef class AssignedQueue:
    cdef readonly tuple queue
    cdef readonly object cursor     # a Cursor
    cdef readonly int64_t offset    # queue offset
    cdef readonly set beyond
    cdef readonly int64_t window    # messages
    cdef public int64_t in_work, tries
    cdef public list suspended
    cdef public double resume_at
    cdef public bint revoked
    cdef object writer
    cdef int64_t index
    cdef object order               # a deque of queue offsets
    cdef dict out
    cdef int64_t fresh, behind      # queue offsets
    cdef list scattered

    cdef list take_mapped(self, object selection, int64_t limit, int64_t max_bytes)
    cdef list select(self, object selection, list found, int64_t before)
    cdef Py_ssize_t find_damage(self, object selection, list found) except -1
    cdef int note_fresh(self) except -1
    cdef int forget(self) except -1
    cdef int settle(self, int64_t queue_offset) except -1
    cpdef hand_out(self, list messages)
    cpdef bint acknowledge(self, int64_t queue_offset) except -1
    cpdef advance(self)
