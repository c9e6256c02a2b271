# The answers to messages that the fast path has sent.

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from silomq.broker.link._sent cimport Answerable
from silomq.broker.loop._connection cimport Connection


cdef class Answers:
    cdef object refused
    cdef bytes json, host
    cdef uint8_t binary[512]
    cdef uint32_t binary_length

    cdef int answer(self, Reply reply) except -1
    cdef Py_ssize_t in_json(self, uint8_t *out, Py_ssize_t room, int code, Reply reply) noexcept
    cdef Py_ssize_t in_binary(self, uint8_t *out, Py_ssize_t room, int code,
                              Reply reply) noexcept
    cdef Py_ssize_t put_ids(self, uint8_t *out, Reply reply) noexcept


cdef class Reply(Answerable):
    cdef Answers answers
    cdef Connection connection
    cdef int32_t opaque
    cdef uint32_t form, queue_id, key_length, count
    cdef uint8_t key[64]
    cdef uint32_t *lengths          # of the records of a batch, NULL for one message
