# The memory of a part of a column.

from libc.stdint cimport uint8_t

cdef extern from "store/reading/arrow_buffers.h" nogil:
    ctypedef struct silo_buffer:
        uint8_t *data
        size_t used, room
    ctypedef struct silo_column:
        silo_buffer data, ends, valid


cdef class Block:
    cdef uint8_t *data
    cdef readonly size_t size
    cdef size_t room


cdef Block make_block(size_t size)
cdef Block detach(silo_buffer *b)
cdef tuple take_parts(silo_column *c)
