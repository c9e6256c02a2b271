# The stamp at the front of each body: when its message was due (`protocol.STAMP`).

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    uint64_t __builtin_bswap64(uint64_t) nogil

cdef enum:
    STAMP = 8


cdef inline void put_stamp(char *body, int64_t due) noexcept nogil:
    cdef uint64_t stamp = __builtin_bswap64(<uint64_t>due)
    memcpy(body, &stamp, STAMP)


cdef inline int64_t stamp_of(const char *body) noexcept nogil:
    cdef uint64_t stamp
    memcpy(&stamp, body, STAMP)
    return <int64_t>__builtin_bswap64(stamp)
