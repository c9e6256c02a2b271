# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Counters that the compiled paths add to, and Python reads once a second."""

from libc.stdint cimport int64_t, uint64_t

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    ctypedef int clockid_t
    clockid_t CLOCK_MONOTONIC_COARSE
    int clock_gettime(clockid_t clock, timespec *now)


def _limits():
    limits, last = [0], 0
    for width, count in ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9)):
        limits += [last + width * (i + 1) for i in range(count)]
        last += width * count
    return tuple(limits)


#: The steps of Latencies: step 0 counts times of 0 ms, step n those from LIMITS[n - 1] up to, and
#: without, LIMITS[n] (ms), and a last step all others. They are RocketMQ's (StoreStatsService).
LIMITS = _limits()

assert len(LIMITS) == STEPS - 1


cdef int64_t coarse_ms() noexcept:
    """The monotonic time (ms) of the kernel's last tick: reading it costs a few nanoseconds."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef class Meter:
    """How often something was done, with how many messages, and how many bytes of them."""

    def add(self, uint64_t messages, uint64_t size):
        self.count(messages, size)

    def totals(self):
        """Times, messages, bytes, since the start."""
        return self.times, self.messages, self.size


cdef class Latencies:
    """How long puts took, in steps."""

    cdef void count(self, int64_t ms) noexcept:
        cdef int64_t step
        if ms > self.longest_ms:
            self.longest_ms = ms
        if ms > 0:
            self.sum_ms += ms
        if ms <= 0:
            step = 0
        elif ms < 20:
            step = 1 + ms
        elif ms < 50:
            step = 21 + (ms - 20) // 2
        elif ms < 100:
            step = 36 + (ms - 50) // 5
        elif ms < 200:
            step = 46 + (ms - 100) // 10
        elif ms < 500:
            step = 56 + (ms - 200) // 50
        elif ms < 1000:
            step = 62 + (ms - 500) // 100
        elif ms < 10_000:
            step = 67 + (ms - 1000) // 1000
        else:
            step = STEPS - 1
        self.steps[step] += 1

    def add(self, int64_t ms):
        self.count(ms)

    def counts(self):
        """The number of times in each step."""
        return [self.steps[i] for i in range(STEPS)]
