# The answers to messages that the fast path has sent.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from silomq.broker.link._sent cimport Answerable
from silomq.broker.loop._connection cimport Connection
from silomq.broker.statistics._counters cimport Latencies


cdef class Answers:
    cdef object refused
    cdef list always                # names and values of the fields that every answer has
    cdef bytes host
    cdef Latencies latencies
    cdef size_t room

    cdef int answer(self, Reply reply) except -1
    cdef uint8_t *put_ids(self, uint8_t *p, Reply reply) noexcept


cdef class Reply(Answerable):
    cdef Answers answers
    cdef Connection connection
    cdef int64_t began_ms           # coarse_ms
    cdef int32_t code, opaque
    cdef uint32_t form, queue_id, key_length, count
    cdef uint8_t key[64]
    cdef uint32_t *lengths          # of the records of a batch, NULL for one message
