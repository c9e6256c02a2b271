# Pauses, for kernels that spin and sleep.

from libc.stdint cimport int64_t

cdef extern from "shm/pauses.h" nogil:
    ctypedef struct silo_pauses:
        int64_t since
    void silo_end_pause(silo_pauses *pauses, int64_t now, int64_t spin_ns)
    bint silo_may_spin(const silo_pauses *pauses, int64_t now, int64_t spin_ns)
