# cython: language_level=3, boundscheck=False, wraparound=False
"""The machine's limits, measured at C speed."""

from libc.errno cimport ETIMEDOUT
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from posix.time cimport nanosleep, timespec

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    int64_t silo_monotonic_ns()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)
    int silo_futex_wake(const void *p, int count)

GONE = "the other process of a hand-over does not answer"


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


cdef bint has_come(const void *word, uint64_t seen, int patience_s) noexcept nogil:
    """Sleeps until the word is more than `seen`. False if nothing wakes for that long."""
    while silo_load(word) <= seen:
        if silo_futex_wait(word, seen, 1000000000) == -ETIMEDOUT:
            patience_s -= 1
            if patience_s <= 0:
                return False
    return True


def hand_over(unsigned char[::1] memory not None, int side, uint64_t rounds, int patience_s=30):
    """Runs one of two processes that pass a word to and fro by futex. Each sleeps until it is its
    turn. Returns seconds. Raises TimeoutError if the other does not come for `patience_s`.

    Side 0 starts. `memory` holds two words on cache lines of their own, 128 bytes apart, both 0.
    """
    cdef unsigned char *mine = &memory[128 * side]
    cdef unsigned char *theirs = &memory[128 * (1 - side)]
    cdef uint64_t i
    cdef int64_t start
    cdef bint here = True
    with nogil:
        start = silo_monotonic_ns()
        for i in range(rounds):
            if side == 1:
                here = has_come(theirs, i, patience_s)
            silo_store(mine, i + 1)
            silo_futex_wake(mine, 1)
            if side == 0:
                here = has_come(theirs, i, patience_s)
            if not here:
                break
    if not here:
        raise TimeoutError(GONE)
    return (silo_monotonic_ns() - start) / 1e9


def hand_over_times(unsigned char[::1] memory not None, int64_t[::1] taken not None,
                    int64_t gap_ns, int patience_s=30):
    """Side 0 of `hand_over`, which starts a round each `gap_ns` and sleeps in between. `taken` gets
    the nanoseconds of each round. A round that is due while one lasts starts after that. Raises
    TimeoutError as `hand_over` does.
    """
    cdef unsigned char *mine = &memory[0]
    cdef unsigned char *theirs = &memory[128]
    cdef Py_ssize_t i
    cdef int64_t due, now
    cdef timespec pause
    cdef bint here = True
    with nogil:
        due = silo_monotonic_ns()
        for i in range(taken.shape[0]):
            due += gap_ns
            now = silo_monotonic_ns()
            if now < due:
                pause.tv_sec = (due - now) // 1000000000
                pause.tv_nsec = (due - now) % 1000000000
                nanosleep(&pause, NULL)
                now = silo_monotonic_ns()
            silo_store(mine, i + 1)
            silo_futex_wake(mine, 1)
            here = has_come(theirs, i, patience_s)
            if not here:
                break
            taken[i] = silo_monotonic_ns() - now
    if not here:
        raise TimeoutError(GONE)
