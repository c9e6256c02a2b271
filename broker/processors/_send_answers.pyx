# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The answers to messages of the fast path: where they are stored, in the form of the request."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen

from silomq.client.producing._ring cimport FLUSH_DISK_TIMEOUT, P_DONE, PUT_OK

cdef extern from "shm/words.h" nogil:
    void silo_put16(uint8_t *p, uint32_t v)
    void silo_put32(uint8_t *p, uint32_t v)

cdef extern from "broker/wire/header.h" nogil:
    int FORM_JSON, HEADER_FIXED

cdef enum:
    TIMEOUT_CODE = 10               # ResponseCode.FLUSH_DISK_TIMEOUT
    PREFIX = 8                      # bytes of a frame before its header
    ROOM = 1024                     # for an answer without its message ids, and what follows
    VERSION = 479                   # codes.OUR_VERSION
    ID_DIGITS = 16                  # of a log offset in a message id


cdef class Reply(Answerable):
    """The answer that a request waits for."""

    def __dealloc__(self):
        free(self.lengths)

    cdef int answered(self) except -1:
        status = -1 if self.state < P_DONE else self.outcome.status
        if status == PUT_OK or status == FLUSH_DISK_TIMEOUT:
            return self.answers.answer(self)
        self.answers.refused(self.connection, self.opaque, self.form, status)
        return 0


cdef class Answers:
    """Sends answers. `always` are the fields of each, by name. `refused(connection, opaque, form,
    status)` answers a request that the store refused, or lost (status -1).
    """

    def __init__(self, dict always not None, refused):
        self.refused = refused
        self.host = b""
        self.json = "".join(f'"{name}":"{value}",' for name, value in always.items()).encode()
        binary = b"".join(
            len(name).to_bytes(2, "big") + name.encode() + len(value).to_bytes(4, "big")
            + value.encode() for name, value in always.items())
        assert len(binary) <= sizeof(self.binary), "regions have short names"
        memcpy(self.binary, <const char *>binary, len(binary))
        self.binary_length = len(binary)

    def bind(self, bytes store_host not None):
        """Takes over the store host of a session: message ids begin with it."""
        self.host = store_host.hex().upper().encode()

    cdef int answer(self, Reply reply) except -1:
        """Sends where the messages are stored."""
        cdef int code = 0 if reply.outcome.status == PUT_OK else TIMEOUT_CODE
        cdef Py_ssize_t room, at
        cdef uint8_t *out
        cdef bytes data
        if reply.connection.closed:
            return 0
        room = (ROOM + PyBytes_GET_SIZE(self.json) + self.binary_length
                + reply.count * (PyBytes_GET_SIZE(self.host) + ID_DIGITS + 1))
        out = <uint8_t *>malloc(room)
        if out == NULL:
            raise MemoryError
        try:
            if reply.form == FORM_JSON:
                at = self.in_json(out, room, code, reply)
            else:
                at = self.in_binary(out, room, code, reply)
            silo_put32(out, <uint32_t>(at - 4))
            silo_put32(out + 4, reply.form << 24 | <uint32_t>(at - PREFIX))
            data = PyBytes_FromStringAndSize(<const char *>out, at)
        finally:
            free(out)
        reply.connection.send(data)
        return 0

    cdef Py_ssize_t in_json(self, uint8_t *out, Py_ssize_t room, int code, Reply reply) noexcept:
        """Writes the header behind the frame's first words. Returns its end."""
        cdef Py_ssize_t at = PREFIX
        at += snprintf(<char *>out + at, room - at, '{"code":%d,"extFields":{%s"msgId":"',
                       code, <const char *>self.json)
        at += self.put_ids(out + at, reply)
        at += snprintf(<char *>out + at, room - at, '","queueId":"%u","queueOffset":"%lld"',
                       reply.queue_id, <long long>reply.outcome.queue_offset)
        if reply.key_length:
            at += snprintf(<char *>out + at, room - at, ',"transactionId":"%.*s"',
                           <int>reply.key_length, <const char *>reply.key)
        at += snprintf(
            <char *>out + at, room - at,
            '},"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
            '"version":%d}', reply.opaque, <int>VERSION)
        return at

    cdef Py_ssize_t in_binary(self, uint8_t *out, Py_ssize_t room, int code, Reply reply) noexcept:
        """Writes the header behind the frame's first words. Returns its end."""
        cdef Py_ssize_t fields = PREFIX + HEADER_FIXED + 8, at, size
        cdef uint8_t *p = out + PREFIX
        silo_put16(p, code)
        p[2] = 0                    # JAVA
        silo_put16(p + 3, VERSION)
        silo_put32(p + 5, <uint32_t>reply.opaque)
        silo_put32(p + 9, 1)
        silo_put32(p + HEADER_FIXED, 0)
        at = fields
        memcpy(out + at, self.binary, self.binary_length)
        at += self.binary_length
        at += put_name(out + at, "msgId")
        size = self.put_ids(out + at + 4, reply)
        silo_put32(out + at, <uint32_t>size)
        at += 4 + size
        at += put_name(out + at, "queueId")
        size = snprintf(<char *>out + at + 4, room - at, "%u", reply.queue_id)
        silo_put32(out + at, <uint32_t>size)
        at += 4 + size
        at += put_name(out + at, "queueOffset")
        size = snprintf(<char *>out + at + 4, room - at, "%lld",
                        <long long>reply.outcome.queue_offset)
        silo_put32(out + at, <uint32_t>size)
        at += 4 + size
        if reply.key_length:
            at += put_name(out + at, "transactionId")
            silo_put32(out + at, reply.key_length)
            memcpy(out + at + 4, reply.key, reply.key_length)
            at += 4 + reply.key_length
        silo_put32(out + fields - 4, <uint32_t>(at - fields))
        return at

    cdef Py_ssize_t put_ids(self, uint8_t *out, Reply reply) noexcept:
        """Writes the ids of the messages with commas between them. Returns their length."""
        cdef Py_ssize_t at = 0, host = PyBytes_GET_SIZE(self.host)
        cdef uint64_t offset = reply.outcome.physical_offset
        cdef uint32_t i
        for i in range(reply.count):
            if i:
                out[at] = c","
                at += 1
            memcpy(out + at, PyBytes_AS_STRING(self.host), host)
            at += host
            at += snprintf(<char *>out + at, ID_DIGITS + 1, "%016llX", <unsigned long long>offset)
            if reply.lengths != NULL:
                offset += reply.lengths[i]
        return at


cdef Py_ssize_t put_name(uint8_t *out, const char *name) noexcept:
    """Writes a field's name behind its length. Returns their length."""
    cdef size_t length = strlen(name)
    silo_put16(out, <uint32_t>length)
    memcpy(out + 2, name, length)
    return 2 + length
