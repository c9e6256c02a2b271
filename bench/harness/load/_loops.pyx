# cython: language_level=3, boundscheck=False, wraparound=False
"""The loops of a producer whose own time would count: one call for a message, windows, batches.

Each peer in Java has such a loop from its compiler. In Python the loop would take as long as the
call that it measures.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport round
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from posix.time cimport nanosleep, timespec

from silomq.bench.harness.load._counts cimport Counts
from silomq.bench.harness.load._fates cimport Fates
from silomq.bench.harness.load._stamp cimport STAMP, put_stamp

cdef extern from "shm/words.h" nogil:
    int64_t silo_monotonic_ns()

cdef enum:
    SLICE_NS = 20000000     # no wait is longer


cdef bytes stamped(int64_t due, bytes tail):
    """A body: when it was due, big-endian, and its tail."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(tail)
    cdef bytes body = PyBytes_FromStringAndSize(NULL, STAMP + size)
    cdef char *p = PyBytes_AS_STRING(body)
    put_stamp(p, due)
    memcpy(p + STAMP, PyBytes_AS_STRING(tail), size)
    return body


cdef void rest(int64_t ns) noexcept:
    """Sleeps for a time, or a slice of it. Other threads may run meanwhile."""
    cdef timespec pause
    pause.tv_sec, pause.tv_nsec = 0, min(ns, SLICE_NS)
    with nogil:
        nanosleep(&pause, NULL)


cdef class Times:
    """When messages are due: number n at `first + n * period`, ns of CLOCK_MONOTONIC. At `anew`
    those that are late are left out (`Schedule.next`). The last `spin_ns` before a time are not
    slept, and no sleep is shorter than `least_ns`.
    """

    cdef double first, period
    cdef int64_t anew, spin_ns, least_ns

    def __init__(self, double first, double period, int64_t anew, int64_t spin_ns,
                 int64_t least_ns):
        self.first, self.period, self.anew = first, period, anew
        self.spin_ns, self.least_ns = spin_ns, least_ns

    cdef int64_t due(self, uint64_t n) noexcept:
        if self.anew and silo_monotonic_ns() >= self.anew:
            while self.first + n * self.period < self.anew:
                self.first += self.period
            self.anew = 0
        return <int64_t>round(self.first + n * self.period)

    cdef void sleep(self, int64_t left) noexcept:
        """Sleeps a part of the time that is left."""
        if left > self.spin_ns:
            rest(max(left - self.spin_ns, self.least_ns))


cdef class Loop:
    """A producer's work from now to `end`, ns of CLOCK_MONOTONIC, for `most` messages at most.

    `ready` is a list of the messages without their stamps (`bodies.Ready`), which are sent in turn.
    `look` is called with the time when the producer has to look up from its work, and returns the
    time of the next look, or 0 at the end. It gets no look before `look_at`. Latencies go to
    `publish` and `delay`; errors of a call go to the function `failed`.
    """

    cdef list ready
    cdef object look, failed
    cdef Counts publish, delay
    cdef int64_t end, look_at
    cdef uint64_t most, at

    def __init__(self, list ready not None, uint64_t most, int64_t end, look, failed,
                 Counts publish not None, Counts delay not None):
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

    cdef bint goes_on(self, int64_t now) except -1:
        """Looks up from the work if it is time. False when the harness ends it."""
        if now < self.look_at:
            return True
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
            self.publish.add(after - now)
            now = after

    def at_their_times(self, call, Times times not None):
        """Open: a message is sent with `call` when it is due, or as soon as the loop comes to it.
        """
        cdef int64_t due
        cdef uint64_t n
        cdef tuple one
        for n in range(self.most):
            due = times.due(n)
            if due >= self.end or not self.wait_until(due, times):
                break
            self.delay.add(max(silo_monotonic_ns() - due, 0))
            one = self.next()
            try:
                call(one[0], stamped(due, <bytes>one[1]), one[2], one[3])
            except Exception as error:
                self.failed(error)
                continue
            self.publish.add(silo_monotonic_ns() - due)

    cdef bint wait_until(self, int64_t due, Times times) except -1:
        """Waits until a message is due. False when the harness ends the work."""
        cdef int64_t now, left
        while True:
            now = silo_monotonic_ns()
            if not self.goes_on(now):
                return False
            left = due - now
            if left <= 0:
                return True
            times.sleep(left)

    def full_window(self, sender, Fates fates not None, int64_t window):
        """Closed: keeps `window` messages under way. Each is begun as soon as there is room."""
        cdef object begin = sender.begin, wait = sender.wait
        cdef int64_t now
        cdef uint64_t n
        for n in range(self.most):
            now = silo_monotonic_ns()
            if now >= self.end or not self.goes_on(now):
                break
            if not self.await_room(wait, fates, window):
                break
            self.begin(begin, fates, silo_monotonic_ns())

    def window_at_their_times(self, sender, Fates fates not None, int64_t window,
                              Times times not None):
        """Open: as `at_their_times`, but a message is begun while there are fewer than `window`
        under way.
        """
        cdef object begin = sender.begin, wait = sender.wait
        cdef int64_t due, now, left
        cdef uint64_t n
        for n in range(self.most):
            due = times.due(n)
            if due >= self.end:
                break
            while True:
                now = silo_monotonic_ns()
                if not self.goes_on(now):
                    return
                left = due - now
                if left <= 0:
                    break
                if fates.under_way:
                    self.take_answers(wait, left)
                else:
                    times.sleep(left)
            if not self.await_room(wait, fates, window):
                break
            self.delay.add(max(silo_monotonic_ns() - due, 0))
            self.begin(begin, fates, due)

    cdef int begin(self, begin, Fates fates, int64_t due) except -1:
        """Begins to send the next message."""
        cdef tuple one = self.next()
        cdef bytes body = fates.begin(stamped(due, <bytes>one[1]), &due)
        try:
            begin(one[0], body, one[2], one[3], due)
        except Exception as error:
            fates.take_back(due)
            self.failed(error)
        return 0

    cdef bint await_room(self, wait, Fates fates, int64_t window) except -1:
        """Waits until the window has room. False when the harness ends the work."""
        while fates.under_way >= window:
            self.take_answers(wait, SLICE_NS)
            if not self.goes_on(silo_monotonic_ns()):
                return False
        return True

    cdef int take_answers(self, wait, int64_t most_ns) except -1:
        """Waits for answers for a time, or a slice of it."""
        most_ns = min(most_ns, SLICE_NS)
        try:
            wait(most_ns / 1e9)
        except Exception as error:
            self.failed(error)
            rest(most_ns)  # a client that fails at once must not fail without end
        return 0

    def await_answers(self, sender, Fates fates not None, int64_t most_ns):
        """Waits until no message is under way. Those that have no answer after a time have failed.
        """
        cdef int64_t now = silo_monotonic_ns(), end = now + most_ns
        while fates.under_way and now < end:
            self.take_answers(sender.wait, SLICE_NS)
            now = silo_monotonic_ns()
            if now >= self.look_at:
                self.look_at = self.look(now)
        for _ in range(fates.under_way):
            self.failed(f"no answer within {most_ns / 1e9:.0f} s")

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
                self.publish.add(after - now)
