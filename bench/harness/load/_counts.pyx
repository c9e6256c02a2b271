# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`Counts`: latencies, counted in the steps of an HdrHistogram (`latencies.py`).

Recording is nearly free: the step of a value takes a few instructions, and its count is a number in
memory. Percentiles and the encoded form take one pass over the counts up to the largest value.

The encoded counts are HdrHistogram's: numbers of the ZigZag LEB128 form with 9 bytes at most. A
negative number -n stands for n counts of 0.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from . import protocol

assert protocol.DIGITS == 3, "2 * 10**3 steps have room in 2 * HALF"
assert in_us(0) == protocol.LOWEST_US
assert in_us(2**62) == protocol.HIGHEST_US
assert step_of(protocol.HIGHEST_US) < STEPS

cdef enum:
    MOST_BYTES = 9              # of an encoded number


cdef int64_t least_of(int step) noexcept nogil:
    """The least value of a step, us."""
    cdef int bucket = max((step >> HALF_BITS) - 1, 0)
    return <int64_t>(step - (bucket << HALF_BITS)) << bucket


cdef int64_t width_of(int step) noexcept nogil:
    """How many values a step has."""
    return <int64_t>1 << max((step >> HALF_BITS) - 1, 0)


cdef uint8_t *put(uint8_t *p, int64_t number) noexcept nogil:
    """Encodes a number. Returns the place behind it."""
    cdef uint64_t left = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef int i
    for i in range(MOST_BYTES - 1):
        if left < 0x80:
            break
        p[0] = <uint8_t>(left | 0x80)
        p += 1
        left >>= 7
    p[0] = <uint8_t>left
    return p + 1


cdef class Counts:
    """Latencies of one kind. `total` is how many there are. Less than 1 us counts as 1 us, more
    than an HdrHistogram holds as the most it holds.
    """

    def __cinit__(self):
        self.counts = <int64_t *>PyMem_RawCalloc(STEPS, sizeof(int64_t))
        if self.counts == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self.counts)

    def record(self, int64_t ns):
        """Counts a latency in ns."""
        self.add(ns)

    def record_all(self, ns):
        """Counts latencies in ns: a buffer of 64-bit integers of the machine."""
        cdef Py_buffer view
        cdef Py_ssize_t i
        PyObject_GetBuffer(ns, &view, PyBUF_SIMPLE)
        for i in range(view.len // <Py_ssize_t>sizeof(int64_t)):
            self.add((<const int64_t *>view.buf)[i])
        PyBuffer_Release(&view)

    def percentiles(self, shares):
        """The largest value (us) of the step in which each of `shares` lies, which are percentages
        in ascending order. All are 0 if nothing was counted.
        """
        cdef list found = []
        cdef int64_t so_far = 0, wanted
        cdef int step = -1
        cdef double share
        for share in shares:
            # The rank is HdrHistogram's.
            wanted = max(<int64_t>(min(share, 100.0) * self.total / 100 + 0.5), 1)
            while so_far < wanted and step + 1 < self.used:
                step += 1
                so_far += self.counts[step]
            found.append(least_of(step) + width_of(step) - 1 if step >= 0 else 0)
        return found

    def mean(self):
        """The mean of the steps' middle values, us; 0 if nothing was counted."""
        cdef long double whole = 0
        cdef int step
        for step in range(self.used):
            if self.counts[step]:
                whole += <long double>self.counts[step] * (
                    least_of(step) + (width_of(step) >> 1))
        return <double>(whole / self.total) if self.total else 0.0

    def take(self):
        """The counts in HdrHistogram's form, without its frame. They are all 0 then. In one step:
        no thread records meanwhile.
        """
        cdef bytes room = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>self.used * MOST_BYTES)
        cdef uint8_t *begin = <uint8_t *>PyBytes_AS_STRING(room)
        cdef uint8_t *p = begin
        cdef int step = 0, first
        while step < self.used:
            if self.counts[step]:
                p = put(p, self.counts[step])
                step += 1
                continue
            first = step
            while self.counts[step] == 0:  # the last count is none of 0
                step += 1
            p = put(p, first - step)
        memset(self.counts, 0, self.used * sizeof(int64_t))
        self.total = self.used = 0
        return room[:p - begin]

    def add_encoded(self, bytes encoded not None):
        """Adds counts that `take` or another HdrHistogram has written. Raises ValueError if they
        are damaged; then a part of them may have been added.
        """
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(encoded)
        cdef const uint8_t *end = p + PyBytes_GET_SIZE(encoded)
        cdef uint64_t bits
        cdef int64_t number
        cdef int step = 0, i
        while p < end:
            bits = 0
            for i in range(MOST_BYTES):
                if p == end:
                    raise ValueError(f"the counts end within step {step}")
                if i == MOST_BYTES - 1:
                    bits |= <uint64_t>p[0] << (7 * i)
                else:
                    bits |= <uint64_t>(p[0] & 0x7F) << (7 * i)
                p += 1
                if p[-1] < 0x80:
                    break
            number = <int64_t>(bits >> 1) ^ -<int64_t>(bits & 1)
            if number < 0:
                if number < step - STEPS:
                    raise ValueError(f"{-number} counts of 0 behind step {step} of {STEPS}")
                step += <int>-number
                continue
            if step >= STEPS or number >> 56:
                raise ValueError(f"step {step} of {STEPS} counts {number}")
            if number:
                self.counts[step] += number
                self.total += number
                self.used = max(self.used, step + 1)
            step += 1
