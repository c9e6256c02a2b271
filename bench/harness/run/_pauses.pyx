# cython: language_level=3, boundscheck=False, wraparound=False
"""Looks at the clock a thousand times a second on each of several cores, at C speed."""

from libc.stdint cimport int64_t, uint64_t
from posix.time cimport nanosleep, timespec

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    int64_t silo_monotonic_ns()

cdef enum:
    LINE = 64               # bytes: the words of a thread have a cache line of their own
    SEEN = 0                # where they lie in it
    LONGEST = 8
    REST_NS = 1000000


def watch(unsigned char[::1] memory not None, int place, const unsigned char[::1] end not None):
    """The work of thread number `place`, until a byte of `end` is not 0.

    `memory` has 64 bytes for each thread, 0 at first: when it has last looked at the clock, and the
    longest pause that it found, ns. A pause is a time in which none of the threads has looked,
    without the rest of 1 ms that follows each look.
    """
    cdef int threads = memory.shape[0] // LINE, other
    cdef unsigned char *mine = &memory[place * LINE]
    cdef timespec rest
    cdef int64_t now, last, pause
    rest.tv_sec, rest.tv_nsec = 0, REST_NS
    with nogil:
        silo_store(mine + SEEN, silo_monotonic_ns())
        while not end[0]:
            nanosleep(&rest, NULL)
            now, last = silo_monotonic_ns(), 0
            for other in range(threads):
                last = max(last, <int64_t>silo_load(&memory[other * LINE + SEEN]))
            pause = now - last - REST_NS
            if pause > <int64_t>silo_load(mine + LONGEST):
                silo_store(mine + LONGEST, pause)
            silo_store(mine + SEEN, now)


def longest(unsigned char[::1] memory not None):
    """The longest pause since the last call, ns. One that ends just now may be forgotten."""
    cdef uint64_t found = 0
    cdef int place
    for place in range(memory.shape[0] // LINE):
        found = max(found, silo_load(&memory[place * LINE + LONGEST]))
        silo_store(&memory[place * LINE + LONGEST], 0)
    return found
