# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What a sender of the store does for each message: a call (`OneWay`), and what it waits for: the
`Answers` of the store, and the disk (`Unsynced`).

They are compiled because their time would count for each message. In Python it would be longer than
the send itself.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memmove

from silomq.bench.harness.load._fates cimport Fates
from silomq.bench.harness.load._stamp cimport stamp_of
from silomq.client.producing._future cimport SendFuture
from silomq.client.producing._ring cimport P_DONE, P_FAILED
from silomq.shm._words cimport Word

from ....client.errors import SendTimeout

cdef extern from "shm/words.h" nogil:
    int64_t silo_monotonic_ns()

ctypedef struct Sent:
    int64_t due
    uint64_t end                # of the record in the log


cdef class OneWay:
    """Calls a producer's `send_oneway` as the harness calls: with a tag and a key, "" for none."""

    cdef object call

    def __init__(self, call):
        self.call = call

    def __call__(self, topic, body, tag, key):
        self.call(topic, body, tags=tag or None, keys=key or None)


cdef class Unsynced:
    """Acknowledged messages that are not on the disk yet, in the order of the log. `fates` learns
    that they are when the store's word `flushed` has passed them.
    """

    cdef Fates fates
    cdef Word flushed
    cdef Sent *sent
    cdef Py_ssize_t first, count, room

    def __cinit__(self, Fates fates not None, Word flushed not None):
        self.fates, self.flushed = fates, flushed
        self.room = 1024
        self.sent = <Sent *>PyMem_RawMalloc(self.room * sizeof(Sent))
        if self.sent == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self.sent)

    cdef int put(self, int64_t due, uint64_t end) except -1:
        cdef Sent *larger
        if self.count == self.room:
            if self.first > self.room // 2:
                self.count -= self.first
                memmove(self.sent, self.sent + self.first, self.count * sizeof(Sent))
                self.first = 0
            else:
                larger = <Sent *>PyMem_RawRealloc(self.sent, 2 * self.room * sizeof(Sent))
                if larger == NULL:
                    raise MemoryError
                self.sent = larger
                self.room *= 2
        self.sent[self.count].due, self.sent[self.count].end = due, end
        self.count += 1
        return 0

    def add(self, bytes body not None, uint64_t offset):
        """A message was acknowledged: its record is there in the log."""
        self.put(stamp_of(PyBytes_AS_STRING(body)), offset + PyBytes_GET_SIZE(body))
        self.tell()

    def add_batch(self, list bodies not None, uint64_t offset):
        """As `add`, for the messages of a batch, which is durable as a whole."""
        cdef bytes body
        for body in bodies:
            offset += PyBytes_GET_SIZE(body)
        for body in bodies:
            self.put(stamp_of(PyBytes_AS_STRING(body)), offset)
        self.tell()

    cpdef int tell(self) except -1:
        """Tells of the messages that are durable by now."""
        cdef uint64_t flushed = self.flushed.load()
        cdef int64_t now
        if self.first == self.count or self.sent[self.first].end > flushed:
            return 0
        now = silo_monotonic_ns()
        while self.first < self.count and self.sent[self.first].end <= flushed:
            self.fates.durable.add(now - self.sent[self.first].due)
            self.first += 1
        if self.first == self.count:
            self.first = self.count = 0
        return 0


cdef class Answers:
    """The futures of at most `most` messages under way, in the order of sending, which is that of
    the answers. `unsynced`, if not None, gets those that are acknowledged.
    """

    cdef Fates fates
    cdef Unsynced unsynced
    cdef list futures
    cdef int64_t *dues
    cdef Py_ssize_t most
    cdef uint64_t begun, taken

    def __cinit__(self, Fates fates not None, Unsynced unsynced, Py_ssize_t most):
        self.fates, self.unsynced, self.most = fates, unsynced, most
        self.futures = [None] * most
        self.dues = <int64_t *>PyMem_RawMalloc(most * sizeof(int64_t))
        if self.dues == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self.dues)

    def add(self, SendFuture future not None, int64_t due):
        """The next message. Takes the answers that are there."""
        cdef Py_ssize_t at = self.begun % <uint64_t>self.most
        assert self.begun - self.taken < <uint64_t>self.most, "more messages than the window has"
        self.futures[at] = future
        self.dues[at] = due
        self.begun += 1
        self.take()

    def wait(self, double timeout_s):
        """Takes the answers that are there. Waits for the first of them for a time."""
        cdef SendFuture future
        if self.taken == self.begun:
            return
        future = <SendFuture>self.futures[self.taken % <uint64_t>self.most]
        try:
            future.exception(timeout_s)
        except SendTimeout:
            pass
        self.take()

    cdef int take(self) except -1:
        cdef SendFuture future
        cdef Py_ssize_t at
        cdef int64_t now = 0
        while self.taken < self.begun:
            at = self.taken % <uint64_t>self.most
            future = <SendFuture>self.futures[at]
            if future.state < P_DONE and not future.done():
                break
            self.futures[at] = None
            self.taken += 1
            if future.state == P_FAILED:
                self.fates.refused(self.dues[at], repr(future.exception(0)))
                continue
            if now == 0:
                now = silo_monotonic_ns()
            self.fates.store(self.dues[at], now)
            if self.unsynced is not None:
                self.unsynced.put(
                    self.dues[at], future.outcome.physical_offset + future.record_bytes)
        if now and self.unsynced is not None:
            self.unsynced.tell()
        return 0
