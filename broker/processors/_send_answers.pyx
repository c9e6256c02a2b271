# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The answers to messages of the fast path: where they are stored, in the form of the request."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from silomq.broker.wire._header cimport (
    ANSWER_ROOM, FIELD_ROOM, silo_answer, silo_begin_answer, silo_begin_field, silo_end_answer,
    silo_end_field, silo_number_field, silo_text_field)
from silomq.broker.statistics._counters cimport Latencies, coarse_ms
from silomq.client.producing._ring cimport FLUSH_DISK_TIMEOUT, P_DONE, PUT_OK

cdef enum:
    TIMEOUT_CODE = 10               # ResponseCode.FLUSH_DISK_TIMEOUT
    ROOM = 512                      # for an answer without its message ids
    MOST_KEY = 64                   # of a message's UNIQ_KEY
    ID_DIGITS = 16                  # of a log offset in a message id


cdef class Reply(Answerable):
    """The answer that a request waits for."""

    def __dealloc__(self):
        free(self.lengths)

    cdef int answered(self) except -1:
        status = -1 if self.state < P_DONE else self.outcome.status
        if status == PUT_OK or status == FLUSH_DISK_TIMEOUT:
            self.answers.latencies.count(coarse_ms() - self.began_ms)
            return self.answers.answer(self)
        self.answers.refused(self.connection, self.code, self.opaque, self.form, status)
        return 0


cdef class Answers:
    """Sends answers. `always` are the fields of each, by name. `refused(connection, code, opaque,
    form, status)` answers a request that the store refused, or lost (status -1). `latencies` counts
    how long the others took.
    """

    def __init__(self, dict always not None, refused, Latencies latencies not None):
        self.latencies = latencies
        self.refused = refused
        self.host = b""
        self.always = [(name.encode(), value.encode()) for name, value in always.items()]
        self.room = ROOM + sum(len(name) + len(value) + FIELD_ROOM for name, value in self.always)
        assert ROOM >= ANSWER_ROOM + 4 * (FIELD_ROOM + 14) + MOST_KEY

    def bind(self, bytes store_host not None):
        """Takes over the store host of a session: message ids begin with it."""
        self.host = store_host.hex().upper().encode()

    cdef int answer(self, Reply reply) except -1:
        """Sends where the messages are stored."""
        cdef int code = 0 if reply.outcome.status == PUT_OK else TIMEOUT_CODE
        cdef silo_answer a
        cdef uint8_t *out
        cdef uint8_t *end
        cdef bytes data, name, value
        if reply.connection.closed:
            return 0
        out = <uint8_t *>malloc(
            self.room + reply.count * (PyBytes_GET_SIZE(self.host) + ID_DIGITS + 1))
        if out == NULL:
            raise MemoryError
        try:
            silo_begin_answer(&a, out, reply.form, code, reply.opaque, b"")
            for name, value in self.always:
                silo_text_field(&a, PyBytes_AS_STRING(name), PyBytes_AS_STRING(value),
                                PyBytes_GET_SIZE(value))
            silo_begin_field(&a, "msgId")
            a.p = self.put_ids(a.p, reply)
            silo_end_field(&a)
            silo_number_field(&a, "queueId", reply.queue_id)
            silo_number_field(&a, "queueOffset", reply.outcome.queue_offset)
            if reply.key_length:
                silo_text_field(&a, "transactionId", reply.key, reply.key_length)
            end = silo_end_answer(&a, 0)
            data = PyBytes_FromStringAndSize(<const char *>out, end - out)
        finally:
            free(out)
        reply.connection.send(data)
        return 0

    cdef uint8_t *put_ids(self, uint8_t *p, Reply reply) noexcept:
        """Writes the ids of the messages with commas between them. Returns their end."""
        cdef Py_ssize_t host = PyBytes_GET_SIZE(self.host)
        cdef uint64_t offset = reply.outcome.physical_offset
        cdef uint32_t i
        for i in range(reply.count):
            if i:
                p[0] = c","
                p += 1
            memcpy(p, PyBytes_AS_STRING(self.host), host)
            put_hex(p + host, offset)
            p += host + ID_DIGITS
            if reply.lengths != NULL:
                offset += reply.lengths[i]
        return p


cdef inline void put_hex(uint8_t *p, uint64_t value) noexcept:
    """Writes 16 hexadecimal digits."""
    cdef int i
    cdef uint8_t digit
    for i in range(ID_DIGITS):
        digit = value >> (60 - 4 * i) & 15
        p[i] = digit + (48 if digit < 10 else 55)
