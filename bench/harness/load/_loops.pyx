# cython: language_level=3, boundscheck=False, wraparound=False
"""The loops of a producer whose own time would count: one call for a message, and batches.

Each peer in Java has such a loop from its compiler. In Python the loop would take as long as the
call that it measures.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport round
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from "shm/words.h" nogil:
    int64_t silo_monotonic_ns()

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec *time, timespec *left)

cdef extern from *:
    uint64_t __builtin_bswap64(uint64_t) nogil

DEF STAMP = 8
DEF LATENCIES = 1024  # so many are handed over at a time


cdef bytes stamped(int64_t due, bytes tail):
    """A body: when it was due, big-endian, and its tail."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(tail)
    cdef bytes body = PyBytes_FromStringAndSize(NULL, STAMP + size)
    cdef char *p = PyBytes_AS_STRING(body)
    cdef uint64_t stamp = __builtin_bswap64(<uint64_t>due)
    memcpy(p, &stamp, STAMP)
    memcpy(p + STAMP, PyBytes_AS_STRING(tail), size)
    return body


cdef class Loop:
    """A producer's work from now to `end`, ns of CLOCK_MONOTONIC, for `most` messages at most.

    `ready` is a list of the messages without their stamps (`bodies.Ready`), which are sent in turn.
    `look` is called with the time when the producer has to look up from its work, and returns the
    time of the next look, or 0 at the end. It gets no look before `look_at`. Latencies go to the
    arrays `publish` and `delay`; errors of a call go to the function `failed`.
    """

    cdef list ready
    cdef object look, failed, publish, delay
    cdef int64_t end, look_at
    cdef uint64_t most, at
    cdef int64_t took[LATENCIES]
    cdef int64_t late[LATENCIES]
    cdef int taken, lates

    def __init__(self, list ready not None, uint64_t most, int64_t end, look, failed, publish,
                 delay):
        self.ready = ready
        self.most = most
        self.end = end
        self.look, self.failed = look, failed
        self.publish, self.delay = publish, delay

    cdef tuple next(self):
        cdef tuple one = <tuple>self.ready[self.at]
        self.at += 1
        if self.at == <uint64_t>len(self.ready):
            self.at = 0
        return one

    cdef int hand_over(self) except -1:
        if self.taken:
            self.publish.frombytes((<char *>self.took)[:self.taken * sizeof(int64_t)])
        if self.lates:
            self.delay.frombytes((<char *>self.late)[:self.lates * sizeof(int64_t)])
        self.taken = self.lates = 0
        return 0

    cdef int note(self, int64_t took) except -1:
        self.took[self.taken] = took
        self.taken += 1
        if self.taken == LATENCIES:
            self.hand_over()
        return 0

    cdef int note_late(self, int64_t late) except -1:
        self.late[self.lates] = late if late > 0 else 0
        self.lates += 1
        if self.lates == LATENCIES:
            self.hand_over()
        return 0

    cdef bint goes_on(self, int64_t now) except -1:
        """Looks up from the work if it is time. False when the harness ends it."""
        if now < self.look_at:
            return True
        self.hand_over()
        self.look_at = self.look(now)
        return self.look_at > 0

    def one_by_one(self, call):
        """Closed: sends a message with `call(topic, body, tag, key)` as soon as the one before has
        been sent.
        """
        cdef int64_t now = silo_monotonic_ns(), after
        cdef uint64_t n = 0
        cdef tuple one
        while n < self.most and now < self.end:
            if now >= self.look_at:
                if not self.goes_on(now):
                    break
                now = silo_monotonic_ns()  # the look is no message's latency
            one = self.next()
            n += 1
            try:
                call(one[0], stamped(now, <bytes>one[1]), one[2], one[3])
            except Exception as error:
                self.failed(error)
                now = silo_monotonic_ns()
                continue
            after = silo_monotonic_ns()
            self.note(after - now)
            now = after
        self.hand_over()

    def at_their_times(self, call, double first, double period, int64_t anew, int64_t spin_ns,
                       int64_t least_ns):
        """Open: message n is due at `first + n * period`, and is sent with `call` then, or as soon
        as the loop comes to it. At `anew` those that are late are left out (`Schedule.next`).

        The last `spin_ns` before that time are not slept. No sleep is shorter than `least_ns`.
        """
        cdef int64_t due
        cdef uint64_t n
        cdef tuple one
        for n in range(self.most):
            if anew and silo_monotonic_ns() >= anew:
                while first + n * period < anew:
                    first += period
                anew = 0
            due = <int64_t>round(first + n * period)
            if due >= self.end or not self.wait_until(due, spin_ns, least_ns):
                break
            self.note_late(silo_monotonic_ns() - due)
            one = self.next()
            try:
                call(one[0], stamped(due, <bytes>one[1]), one[2], one[3])
            except Exception as error:
                self.failed(error)
                continue
            self.note(silo_monotonic_ns() - due)
        self.hand_over()

    cdef bint wait_until(self, int64_t due, int64_t spin_ns, int64_t least_ns) except -1:
        """Waits until a message is due. False when the harness ends the work."""
        cdef int64_t now, left
        cdef timespec pause
        while True:
            now = silo_monotonic_ns()
            if not self.goes_on(now):
                return False
            left = due - now
            if left <= 0:
                return True
            if left <= spin_ns:
                continue
            left = max(left - spin_ns, least_ns)
            left = min(left, 20000000)
            pause.tv_sec, pause.tv_nsec = 0, left
            with nogil:
                nanosleep(&pause, NULL)

    def batches(self, call, uint64_t batch):
        """Closed: sends `batch` messages with `call(topic, bodies, tag, key)` as soon as those
        before have been sent.
        """
        cdef int64_t now, after
        cdef uint64_t n = 0, count, i
        cdef tuple one, head
        cdef list bodies
        while n < self.most:
            now = silo_monotonic_ns()
            if now >= self.end or not self.goes_on(now):
                break
            now = silo_monotonic_ns()  # the look is no message's latency
            count = min(batch, self.most - n)
            n += count
            bodies = []
            head = None
            for i in range(count):
                one = self.next()
                if head is None:
                    head = one
                bodies.append(stamped(now, <bytes>one[1]))
            try:
                call(head[0], bodies, head[2], head[3])
            except Exception as error:
                for i in range(count):
                    self.failed(error)
                continue
            after = silo_monotonic_ns()
            for i in range(count):
                self.note(after - now)
        self.hand_over()
