# The most frequent requests, served without Python.

from silomq.broker.loop._connection cimport Connection, FastPath
from silomq.broker.wire._header cimport silo_header


cdef class FastRequest:
    cdef bint take(self, Connection connection, const silo_header *h) except -1


cdef class FastRequests(FastPath):
    cdef readonly FastRequest send, pull
