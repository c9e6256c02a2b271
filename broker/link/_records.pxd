# The records of a read (records.h).

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "broker/link/records.h" nogil:
    int ENTRY_SIZE
    ctypedef struct silo_walk:
        const uint8_t *entries
        int64_t number, next
        const int32_t *codes
        int64_t code_count, base, end, limit, max_bytes, taken, bytes, at, size
    bint silo_measure(silo_walk *w, const uint8_t *log)
    void silo_copy(silo_walk *w, const uint8_t *log, int64_t taken, uint8_t *out)
