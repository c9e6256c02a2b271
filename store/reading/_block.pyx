# cython: language_level=3, boundscheck=False, wraparound=False
"""Memory that Arrow uses as a buffer without a copy."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint8_t
from libc.string cimport memset

cdef extern from "store/reading/blocks.h" nogil:
    void *silo_block_take(size_t *room)
    void silo_block_give(void *data, size_t room)


cdef class Block:
    """The memory of a part of a column, which Arrow uses as a buffer. It goes back to `blocks.h`
    when Arrow frees it."""

    def __dealloc__(self):
        silo_block_give(self.data, self.room)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, False, flags)


cdef Block make_block(size_t size):
    cdef Block block = Block.__new__(Block)
    block.size = size
    block.room = max(size, <size_t>1)
    block.data = <uint8_t *>silo_block_take(&block.room)
    if block.data == NULL:
        raise MemoryError
    return block


cdef Block detach(silo_buffer *b):
    """Moves the memory of a buffer into a Block, and leaves the buffer empty."""
    cdef Block block
    if b.data == NULL:
        return make_block(0)
    block = Block.__new__(Block)
    block.data = b.data
    block.size = b.used
    block.room = b.room
    memset(b, 0, sizeof(silo_buffer))
    return block


cdef Block bits(silo_buffer *valid):
    """A Block with a bit for each byte of `valid`, in Arrow's order."""
    cdef Block block = make_block((valid.used + 7) // 8)
    cdef size_t i
    memset(block.data, 0, block.size)
    for i in range(valid.used):
        block.data[i >> 3] |= valid.data[i] << (i & 7)
    return block


cdef tuple take_parts(silo_column *c):
    """Moves the parts of a column out: (validity bits, ends, data)."""
    return bits(&c.valid), detach(&c.ends), detach(&c.data)
