# Counts of latencies, which the compiled loops add to.

from libc.stdint cimport int64_t

cdef enum:
    HALF_BITS = 10              # half of the steps of a bucket, as a power of 2
    HALF = 1 << HALF_BITS
    STEPS = 23 * HALF           # 22 buckets of 2,048 steps each, whose lower halves overlap

cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil


cdef inline int64_t in_us(int64_t ns) noexcept nogil:
    """A time as it is counted: from 1 us to 1 h."""
    cdef int64_t us = ns // 1000
    return 1 if us < 1 else min(us, 3600 * <int64_t>1000000)


cdef inline int step_of(int64_t us) noexcept nogil:
    """HdrHistogram's index of a value."""
    cdef int bucket = 63 - HALF_BITS - __builtin_clzll(us | (2 * HALF - 1))
    return (bucket << HALF_BITS) + <int>(us >> bucket)


cdef class Counts:
    cdef int64_t *counts
    cdef readonly int64_t total
    cdef int used               # steps behind this one have no count

    cdef inline void add(self, int64_t ns) noexcept:
        """Counts a latency in ns."""
        cdef int step = step_of(in_us(ns))
        self.counts[step] += 1
        self.total += 1
        if step >= self.used:
            self.used = step + 1
