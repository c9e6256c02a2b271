# A session's own bell, for compiled modules that sleep on it.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "shm/words.h" nogil:
    void silo_store(void *p, uint64_t v)
    void silo_fence()

cdef extern from "shm/layout.h" nogil:
    int BELL_ASLEEP, BELL_WATCHED, ARRIVAL_WORDS

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int fd, void *p, size_t n, int flags)
    int c_shutdown "shutdown"(int fd, int how)
    int MSG_DONTWAIT, SHUT_RDWR

cdef extern from "unistd.h":
    int c_close "close"(int fd)


cdef class Bell:
    cdef object memory
    cdef uint8_t *page
    cdef uint64_t sleeps            # the number of the last sleep
    cdef uint64_t watched[16]
    cdef uint32_t watches[1024]     # how many queues are watched of each arrival word
    cdef readonly int fd

    cpdef void arm(self, int reasons) noexcept
    cpdef void disarm(self) noexcept
    cpdef void watch(self, uint64_t slot) noexcept
    cpdef void unwatch(self, uint64_t slot) noexcept
    cpdef void watch_none(self) noexcept
    cpdef bint drain(self) noexcept
