# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`FastRequests`: takes the header of a request apart, and offers it to who serves it fast."""

from libc.stdint cimport uint8_t, uint32_t

from silomq.broker.loop._connection cimport Connection, FastPath
from silomq.broker.wire._header cimport (
    LITE_PULL_MESSAGE, PULL_MESSAGE, SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2, silo_header,
    silo_parse_header)

cdef enum:
    ANSWER = 1                      # a bit of a command's flag


cdef class FastRequest:
    """Serves one kind of request. `take` returns False for one that a processor must serve."""

    cdef bint take(self, Connection connection, const silo_header *h) except -1:
        return False

    def counted(self):
        """What was served: requests by code, messages that were sent, messages that were pulled."""
        return {}, 0, 0


cdef class FastRequests(FastPath):
    """The fast path of all connections: `send` for what is sent, `pull` for what is pulled."""

    def __init__(self, FastRequest send not None, FastRequest pull not None):
        self.send = send
        self.pull = pull

    cdef bint serve(self, Connection connection, const uint8_t *frame, Py_ssize_t length) except -1:
        cdef silo_header h
        if not silo_parse_header(frame, <uint32_t>length, &h) or h.flag & ANSWER:
            return False
        if h.code == PULL_MESSAGE or h.code == LITE_PULL_MESSAGE:
            return self.pull.take(connection, &h)
        if h.code in (SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE):
            return self.send.take(connection, &h)
        return False
