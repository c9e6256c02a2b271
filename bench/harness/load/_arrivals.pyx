# cython: language_level=3, boundscheck=False, wraparound=False
"""`Arrivals`: the messages that a consumer has had."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from silomq.bench.harness.load._counts cimport Counts
from silomq.bench.harness.load._stamp cimport STAMP, stamp_of

cdef extern from "shm/words.h" nogil:
    int64_t silo_monotonic_ns()


cdef class Arrivals:
    """Bodies are counted, and how old they are goes to `latencies`, if that is not None. `note` is
    called with each body, if it is not None. `read` counts all messages. `last` is when the last
    one came, ns of CLOCK_MONOTONIC.
    """

    cdef Counts latencies
    cdef object note
    cdef readonly int64_t read, last
    cdef int64_t size, told_read, told_size

    def __init__(self, Counts latencies, note, int64_t last):
        self.latencies, self.note, self.last = latencies, note, last

    cdef int take(self, body, int64_t now) except -1:
        cdef Py_buffer view
        self.last = now
        if type(body) is bytes:
            self.count(PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), now)
        else:
            PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
            self.count(<char *>view.buf, view.len, now)
            PyBuffer_Release(&view)
        if self.note is not None:
            self.note(body)
        return 0

    cdef void count(self, const char *p, Py_ssize_t size, int64_t now) noexcept:
        self.read += 1
        self.size += size
        if self.latencies is not None and size >= STAMP:
            self.latencies.add(now - stamp_of(p))

    def one(self, body):
        """A body, now."""
        self.take(body, silo_monotonic_ns())

    def some(self, bodies, int64_t now):
        """A sequence of bodies that came at a time."""
        for body in bodies:
            self.take(body, now)

    def columns(self, found, int64_t now):
        """A `columns.Columns` that came at a time."""
        self.last = now
        if self.latencies is not None:
            self.latencies.record_all(found.since(now))
        self.read += len(found)
        self.size += found.size
        if self.note is not None:
            for body in found.bodies():
                self.note(body)

    def told(self):
        """Messages and bytes since the last call."""
        cdef int64_t read = self.read - self.told_read, size = self.size - self.told_size
        self.told_read, self.told_size = self.read, self.size
        return read, size
