# The bodies of records as a batch has them.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, body_at, body_length, properties_at, properties_length
    int FLAG_COMPRESSED, RECORD_BODY_CRC, RECORD_PHYSICAL_OFFSET, RECORD_QUEUE_OFFSET

cdef extern from "shm/checksum.h" nogil:
    uint32_t silo_crc32(uint32_t seed, const uint8_t *p, size_t n)

cdef extern from "store/record/properties.h" nogil:
    bint silo_has_light_offset(const uint8_t *p, uint32_t length, int64_t offset)

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)


cdef inline bint has_good_body(const uint8_t *r, const silo_record *m) noexcept nogil:
    return silo_be32(r + RECORD_BODY_CRC) == (
        silo_crc32(0, r + m.body_at, m.body_length) & 0x7FFFFFFF)


cdef inline bint is_its_own(const uint8_t *r, const silo_record *m, int64_t queue_offset,
                            int64_t at) noexcept nogil:
    """Whether the record has the queue offset and log offset of its entry, and a good body. A
    message of light queues has an offset in each of them."""
    return ((silo_be64(r + RECORD_QUEUE_OFFSET) == <uint64_t>queue_offset
             or silo_has_light_offset(r + m.properties_at, m.properties_length, queue_offset))
            and silo_be64(r + RECORD_PHYSICAL_OFFSET) == <uint64_t>at and has_good_body(r, m))


cdef class Bodies:
    cdef bint raw
    cdef readonly list bad
    cdef const uint8_t *at          # the body of the record looked at last; NULL if it is bad
    cdef uint32_t length
    cdef bytes kept
    cdef object error

    cdef bint decompress(self, const silo_record *m) noexcept with gil
    cdef void note(self, const silo_record *m) noexcept with gil


cdef inline bint find_body(Bodies bodies, const silo_record *m) noexcept nogil:
    """Sets `at` and `length` to a record's body, which lasts until the next call. Returns False for
    an error that ends the reading, such as MemoryError: `fail` raises it."""
    if m.flags & FLAG_COMPRESSED and m.body_length and not bodies.raw:
        return bodies.decompress(m)
    bodies.at = m.bytes + m.body_at
    bodies.length = m.body_length
    return True
