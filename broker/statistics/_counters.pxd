# Counters that the compiled paths add to.

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    STEPS = 77


cdef class Meter:
    cdef uint64_t times, messages, size

    cdef inline void count(self, uint64_t messages, uint64_t size) noexcept:
        self.times += 1
        self.messages += messages
        self.size += size


cdef class Latencies:
    cdef uint64_t steps[STEPS]
    cdef readonly int64_t longest_ms, sum_ms  # the longest time, and all times together

    cdef void count(self, int64_t ms) noexcept


cdef int64_t coarse_ms() noexcept
