# Where a future is, and what its producer keeps in it.

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

cdef extern from "shm/layout.h" nogil:
    ctypedef struct silo_result:
        int64_t status, physical_offset, queue_offset, store_timestamp

cdef enum:
    F_PENDING = 0
    F_APPENDED = 1          # waits for the sync
    F_DONE = 2
    F_FAILED = 3


cdef enum:
    APPENDED = 0
    DURABLE = 1
    MEMORY = 2


cdef class SendFuture:
    cdef object producer    # a RingProducer
    cdef SendFuture next
    cdef uint64_t end, at
    cdef int state
    cdef silo_result outcome
    cdef uint64_t durable_end
    cdef int64_t deadline
    cdef readonly str topic
    cdef readonly int queue_id
    cdef readonly uint32_t count
    cdef uint32_t record_bytes
    cdef int level          # what the answer will mean
    cdef uint32_t key_time
    cdef uint16_t key_counter, key_wrap
    cdef bytes key_prefix, lengths, store_host
    cdef list callbacks
    cdef object error

    cdef object make_result(self)


cdef run_callbacks(SendFuture future, list callbacks)
