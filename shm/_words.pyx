# cython: language_level=3, boundscheck=False, wraparound=False
"""Words of shared memory as Python objects. A reader's handle can load and wait; the handle of the
word's writer can also store. `ownership.py` decides which process gets which handle."""

from libc.stdint cimport int64_t, uint64_t

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)
    int silo_futex_wake(const void *p, int count)
    int silo_futex_wait_any(const void *const *words, const uint64_t *seen, int count,
                            int64_t timeout_ns)
    int FUTEX_MOST
    void SILO_FAULT(const char *name)

cdef uint64_t ASLEEP = 1
cdef uint64_t AWAKE = 0
cdef int ALL = 2147483647


cdef class Word:
    """The unsigned 64-bit word at `offset` of `memory`, for a process that does not write it."""

    def __cinit__(self, memory, size_t offset):
        self.view = memory
        if offset % 8 or offset + 8 > <size_t>self.view.shape[0]:
            raise ValueError(f"no aligned word at {offset} of {self.view.shape[0]} bytes")
        self.p = <uint64_t *>&self.view[offset]

    cpdef uint64_t load(self):
        """The value, loaded with acquire order."""
        return silo_load(self.p)

    def wait(self, uint64_t seen, double timeout_s):
        """Sleeps until a process wakes the sleepers of the word, or time is up. Does not sleep if
        the word is no longer `seen` (its low 32 bits are compared)."""
        cdef int64_t ns = <int64_t>(timeout_s * 1e9)
        if ns <= 0:
            return
        with nogil:
            silo_futex_wait(self.p, seen, ns)

    def sleep(self, uint64_t seen, double timeout_s, OwnedWord asleep, Word mail=None,
              uint64_t mail_seen=0):
        """`wait`, with `asleep` set: the writer makes the system call for a wake-up only then. Does
        not sleep if the word `mail`, when given, is no longer `mail_seen`.
        """
        asleep.store(ASLEEP)
        silo_fence()
        if silo_load(self.p) == seen and (mail is None or silo_load(mail.p) == mail_seen):
            self.wait(seen, timeout_s)
        asleep.store(AWAKE)

    def wake(self):
        """Wakes every process that waits on the word."""
        silo_futex_wake(self.p, ALL)


cdef class OwnedWord(Word):
    """A word that this process writes and no other does. `memory` must be writable."""

    def __cinit__(self, memory, size_t offset):
        if memoryview(memory).readonly:
            raise TypeError("an owned word needs writable memory")

    cpdef store(self, uint64_t value):
        """Stores with release order. Wakes no sleeper."""
        silo_store(self.p, value)

    def add(self, uint64_t amount):
        """Adds to the value and stores the sum with release order."""
        silo_store(self.p, self.p[0] + amount)

    def publish(self, uint64_t value, Word asleep):
        """Stores, then wakes the word's sleepers if `asleep` is set."""
        silo_store(self.p, value)
        silo_fence()
        if silo_load(asleep.p) != AWAKE:
            silo_futex_wake(self.p, ALL)


MOST_WORDS = FUTEX_MOST


def values(list words):
    """The values of words, loaded with acquire order, one after the other."""
    cdef Word word
    return [silo_load((<Word?>word).p) for word in words]


def wait_any(list words, list seen, double timeout_s):
    """Sleeps until one of the words differs from its value in `seen`, or time is up. Takes at most
    MOST_WORDS words; raises ValueError for more."""
    cdef const void *p[128]
    cdef uint64_t values[128]
    cdef int64_t ns = <int64_t>(timeout_s * 1e9)
    cdef int i, count = len(words)
    if count > FUTEX_MOST:
        raise ValueError(f"{count} words: the kernel waits for {FUTEX_MOST} at once")
    for i in range(count):
        p[i] = (<Word?>words[i]).p
        values[i] = seen[i]
    if ns > 0 and count:
        with nogil:
            silo_futex_wait_any(p, values, count, ns)


def fault(str name):
    """A fault point: a build with fault points kills the process here on demand (see words.h). Does
    nothing in any other build."""
    cdef bytes b = name.encode()
    SILO_FAULT(<const char *>b)
