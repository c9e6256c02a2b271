# A word in shared memory, for kernels that look at many.

from libc.stdint cimport uint64_t


cdef class Word:
    cdef const unsigned char[::1] view
    cdef uint64_t *p

    cpdef uint64_t load(self)
