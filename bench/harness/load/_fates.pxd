# What becomes of messages under way, for the loops that begin them and for compiled clients.

from libc.stdint cimport int64_t

from silomq.bench.harness.load._counts cimport Counts


cdef class Fates:
    cdef Counts publish, durable
    cdef object failed
    cdef readonly object numbers
    cdef dict numbered          # by the `due` of a message under way
    cdef readonly int64_t under_way

    cdef bytes begin(self, bytes body, int64_t *due)
    cdef int take_back(self, int64_t due) except -1
    cdef int store(self, int64_t due, int64_t now) except -1
