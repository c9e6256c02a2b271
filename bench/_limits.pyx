# cython: language_level=3, boundscheck=False, wraparound=False
"""The machine's limits, measured at C speed."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    int64_t silo_monotonic_ns()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)
    int silo_futex_wake(const void *p, int count)


def copy_records(unsigned char[::1] target not None, const unsigned char[::1] records not None,
                 size_t size):
    """Copies ready-made records of `size` bytes, in turn from `records`, until `target` is full.
    Returns (copies, seconds).
    """
    cdef size_t at = 0, end = target.shape[0], each = records.shape[0] // size, count = 0
    cdef int64_t start, stop
    with nogil:
        start = silo_monotonic_ns()
        while at + size <= end:
            memcpy(&target[at], &records[count % each * size], size)
            at += size
            count += 1
        stop = silo_monotonic_ns()
    return count, (stop - start) / 1e9


def hand_over(unsigned char[::1] memory not None, int side, uint64_t rounds):
    """Runs one of two processes that pass a word to and fro by futex. Each sleeps until it is its
    turn. Returns seconds.

    Side 0 starts. `memory` holds two words on cache lines of their own, 128 bytes apart, both 0.
    """
    cdef unsigned char *mine = &memory[128 * side]
    cdef unsigned char *theirs = &memory[128 * (1 - side)]
    cdef uint64_t i
    cdef int64_t start
    with nogil:
        start = silo_monotonic_ns()
        for i in range(rounds):
            if side == 1:
                while silo_load(theirs) <= i:
                    silo_futex_wait(theirs, i, 1000000000)
            silo_store(mine, i + 1)
            silo_futex_wake(mine, 1)
            if side == 0:
                while silo_load(theirs) <= i:
                    silo_futex_wait(theirs, i, 1000000000)
    return (silo_monotonic_ns() - start) / 1e9
