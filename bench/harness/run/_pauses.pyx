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
    LATE = 16
    REST_NS = 1000000


cdef void keep_greatest(unsigned char *word, int64_t found) noexcept nogil:
    if found > <int64_t>silo_load(word):
        silo_store(word, found)


def watch(unsigned char[::1] memory not None, int place, const unsigned char[::1] end not None):
    """The work of thread number `place`, until a byte of `end` is not 0.

    `memory` has 64 bytes for each thread, 0 at first: when it has last looked at the clock, the
    longest pause that it found, and by how much it was late itself, ns. A pause is a time in which
    none of the threads has looked, without the rest of 1 ms that follows each look.
    """
    cdef int threads = memory.shape[0] // LINE, other
    cdef unsigned char *mine = &memory[place * LINE]
    cdef timespec rest
    cdef int64_t now, last
    rest.tv_sec, rest.tv_nsec = 0, REST_NS
    with nogil:
        silo_store(mine + SEEN, silo_monotonic_ns())
        while not end[0]:
            nanosleep(&rest, NULL)
            now, last = silo_monotonic_ns(), 0
            keep_greatest(mine + LATE, now - <int64_t>silo_load(mine + SEEN) - REST_NS)
            for other in range(threads):
                last = max(last, <int64_t>silo_load(&memory[other * LINE + SEEN]))
            keep_greatest(mine + LONGEST, now - last - REST_NS)
            silo_store(mine + SEEN, now)


def longest(unsigned char[::1] memory not None):
    """The longest pause since the last call, ns. One that ends just now may be forgotten."""
    return max(take(memory, LONGEST))


def most_late(unsigned char[::1] memory not None):
    """By how much each thread was late at most since the last call, ns."""
    return take(memory, LATE)


cdef list take(unsigned char[::1] memory, int word):
    cdef list found = []
    cdef int place
    for place in range(memory.shape[0] // LINE):
        found.append(silo_load(&memory[place * LINE + word]))
        silo_store(&memory[place * LINE + word], 0)
    return found
