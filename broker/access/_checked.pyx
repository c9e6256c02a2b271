# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`CheckedFastPath`: a fast path behind the check of signatures and permissions.

It takes a frame's fields apart once more, in the order in which they were signed, and asks
`Access.allows`. Every frame that it does not allow goes the general way, which says why.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from silomq.broker.loop._connection cimport Connection, FastPath
from silomq.broker.wire._header cimport (
    HEADER_FIELDS, LITE_PULL_MESSAGE, PULL_MESSAGE, SEND_BATCH_MESSAGE, SEND_MESSAGE,
    SEND_MESSAGE_V2, silo_header, silo_is, silo_parse_header, silo_unescape, silo_value)

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    # As `_connection.pyx`: what a frame's header has at most.
    MOST_HEADER = 262144
    MOST_NAME = 255                 # of a topic, a group and an access key


cdef class CheckedFastPath(FastPath):
    """Lets `inner` serve the frames that `allows` (`Access.allows`) allows."""

    cdef FastPath inner
    cdef object allows
    cdef uint8_t *scratch           # the values that were signed, without their escapes

    def __cinit__(self):
        self.scratch = <uint8_t *>malloc(MOST_HEADER)
        if self.scratch == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.scratch)

    def __init__(self, FastPath inner not None, allows not None):
        self.inner = inner
        self.allows = allows

    cdef bint serve(self, Connection connection, const uint8_t *frame, Py_ssize_t length) except -1:
        cdef silo_header h
        cdef const silo_value *v
        cdef bytes key = None, signature = b"", topic = None, group = b""
        cdef uint32_t order[HEADER_FIELDS]
        cdef uint32_t i
        cdef int64_t size, total = 0
        if not silo_parse_header(frame, <uint32_t>length, &h):
            return False
        cdef bint is_pull = h.code == PULL_MESSAGE or h.code == LITE_PULL_MESSAGE
        cdef bint is_short = h.code == SEND_MESSAGE_V2 or h.code == SEND_BATCH_MESSAGE
        if not (is_pull or is_short or h.code == SEND_MESSAGE) or not sort_names(&h, order):
            return False
        for i in range(h.count):
            v = &h.names[order[i]]
            size = silo_unescape(&h.values[order[i]], self.scratch + total)
            if size < 0:
                return False
            if size > MOST_NAME and is_name(v, is_short):
                return False            # the general way refuses it, and keeps nothing of it
            if silo_is(v, "Signature"):
                signature = text(self.scratch + total, size)
                continue
            if silo_is(v, "AccessKey"):
                key = text(self.scratch + total, size)
            elif silo_is(v, "b" if is_short else "topic"):
                topic = text(self.scratch + total, size)
            elif is_pull and silo_is(v, "consumerGroup"):
                group = text(self.scratch + total, size)
            total += size
        if topic is None:
            return False
        signed = PyMemoryView_FromMemory(<char *>self.scratch, total, PyBUF_READ)
        body = PyMemoryView_FromMemory(<char *>h.body, h.body_length, PyBUF_READ)
        kind = (key, h.code, topic, group)
        if not self.allows(connection.host, kind, signature, signed, body):
            return False
        return self.inner.serve(connection, frame, length)


cdef bint is_name(const silo_value *v, bint is_short) noexcept:
    """Whether a field holds a name by which decisions are kept."""
    return (silo_is(v, "AccessKey") or silo_is(v, "consumerGroup")
            or silo_is(v, "b" if is_short else "topic"))


cdef bytes text(const uint8_t *p, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *>p, size)


cdef bint sort_names(const silo_header *h, uint32_t *order) noexcept:
    """Puts the fields into the ascending order of their names. False if two have one name."""
    cdef uint32_t i, j
    cdef int found
    for i in range(h.count):
        j = i
        while j > 0:
            found = compare(&h.names[order[j - 1]], &h.names[i])
            if found == 0:
                return False
            if found < 0:
                break
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    return True


cdef int compare(const silo_value *a, const silo_value *b) noexcept:
    cdef int found = memcmp(a.at, b.at, min(a.length, b.length))
    if found != 0:
        return found
    return (a.length > b.length) - (a.length < b.length)
