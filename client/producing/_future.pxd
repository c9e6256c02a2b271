# The fields of a send's future, besides those of the frame that it waits for.

from libc.stdint cimport uint16_t, uint32_t

from silomq.client.producing._ring cimport Pending, Ring

# AckLevel: what PUT_OK means.
cdef enum:
    APPENDED = 0
    DURABLE = 1
    MEMORY = 2


cdef class SendFuture(Pending):
    cdef object session             # a SendSession
    cdef Ring ring
    cdef readonly str topic
    cdef readonly int queue_id
    cdef readonly uint32_t count
    cdef int level
    cdef uint32_t key_time
    cdef uint16_t key_counter, key_wrap
    cdef bytes key_prefix, lengths, store_host
    cdef list callbacks
    cdef object timer               # (topic, due time in epoch ms) of a timer; None
    cdef object error

    cdef object wait(self, double timeout_s)
    cdef int await_end(self, double timeout_s) except -1
    cdef object failure(self)
    cdef object make_result(self)
