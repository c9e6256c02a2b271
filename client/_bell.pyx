# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The client's side of a session bell (`shm/bell.py`).

To sleep: `arm`, look once more at what is waited for, then wait until `fd` is readable. After the
wake-up: `drain`, look, and `arm` again. A bell that is armed rings once. One that was just made, or
that a new process of the store serves, rings without being armed.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint64_t
from libc.string cimport memset


cdef class Bell:
    """The bell with the page `memory` and the client's socket `fd`, which belongs to this object
    until `close`. `fd` is -1 then.

    `arm`, `disarm` and the watches are stores to memory. `memory` stays mapped, so that they do no
    harm after `close`. No method waits.
    """

    def __cinit__(self, unsigned char[::1] memory not None, int fd):
        self.memory = memory
        self.page = &memory[0]
        self.fd = fd

    def __dealloc__(self):
        self.close()

    def fileno(self):
        """The descriptor to wait for: readable when the store rang, or the session is over."""
        return self.fd

    cpdef void arm(self, int reasons) noexcept:
        """Announces sleep for `reasons` (`shm/bell.py`), not 0. Look once more after it."""
        self.sleeps += 1
        # SYNC: bell-asleep publish
        silo_store(self.page + BELL_ASLEEP, self.sleeps << 8 | <uint64_t>reasons)
        silo_fence()

    cpdef void disarm(self) noexcept:
        """Announces awake: nobody rings, except one who has seen the sleep already."""
        silo_store(self.page + BELL_ASLEEP, 0)

    cpdef void watch(self, uint64_t slot) noexcept:
        """Adds the queue in `slot` to those whose messages ring the bell. If the bell is armed,
        look once more after it.
        """
        cdef uint64_t word = slot % ARRIVAL_WORDS
        self.watches[word] += 1
        self.watched[word / 64] |= <uint64_t>1 << (word % 64)
        silo_store(self.page + BELL_WATCHED + 8 * (word / 64), self.watched[word / 64])
        silo_fence()

    cpdef void unwatch(self, uint64_t slot) noexcept:
        """Takes away the queue in `slot`, which was added before."""
        cdef uint64_t word = slot % ARRIVAL_WORDS
        self.watches[word] -= 1
        if self.watches[word]:
            return  # another queue has the same arrival word
        self.watched[word / 64] &= ~(<uint64_t>1 << (word % 64))
        silo_store(self.page + BELL_WATCHED + 8 * (word / 64), self.watched[word / 64])

    cpdef void watch_none(self) noexcept:
        """Takes away all queues."""
        cdef int i
        memset(self.watches, 0, sizeof(self.watches))
        for i in range(ARRIVAL_WORDS / 64):
            self.watched[i] = 0
            silo_store(self.page + BELL_WATCHED + 8 * i, 0)

    cpdef bint drain(self) noexcept:
        """Takes the rings that have come, so that `fd` is not readable. False if the store has hung
        up, or `close` was called: then `fd` stays readable.
        """
        cdef char rings[64]
        cdef ssize_t count = 64
        while count == 64 or (count < 0 and errno == EINTR):
            count = recv(self.fd, rings, 64, MSG_DONTWAIT)
        return count > 0 or (count < 0 and errno == EAGAIN)

    def hang_up(self):
        """Makes `fd`, and each duplicate of it, readable for good: whoever waits for it wakes."""
        if self.fd >= 0:
            c_shutdown(self.fd, SHUT_RDWR)

    def close(self):
        """Closes the descriptor. May be called again."""
        if self.fd >= 0:
            c_close(self.fd)
            self.fd = -1
