# Session bells for compiled modules of the store's processes.

from libc.stdint cimport uint8_t, uint64_t

cdef extern from "shm/words.h" nogil:
    void silo_fence()

cdef extern from "shm/bells.h" nogil:
    ctypedef struct silo_bell:
        const uint8_t *page
        uint64_t rung
        int end
    ctypedef struct silo_bells:
        silo_bell *items
        int count
    void silo_ring_now(const silo_bell *bell)
    bint silo_ring_bell(silo_bell *bell, uint64_t reason)

cdef extern from "unistd.h":
    int close(int fd)


cdef class Bells:
    cdef silo_bells all
    cdef list pages         # of the bells, in their order
    cdef list sessions      # their numbers, in the same order

    cdef int find(self, object session)
