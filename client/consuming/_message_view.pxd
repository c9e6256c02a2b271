# The declarations of the view of a message, from the shared headers.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, time_at, body_at, body_length
        uint32_t topic_at, topic_length, properties_at, properties_length
    int RECORD_OK, RECORD_QUEUE_ID, RECORD_FLAG, RECORD_PHYSICAL_OFFSET
    int RECORD_BORN_TIMESTAMP, RECORD_BORN_HOST, FLAG_BORN_V6, FLAG_STORE_V6, FLAG_COMPRESSED
    uint32_t silo_host_size(uint32_t is_v6)
    const uint8_t *silo_store_host(const silo_record *m)
    uint32_t silo_reconsume_times(const silo_record *m)
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)

cdef extern from "store/record/properties.h" nogil:
    ctypedef struct silo_text:
        const uint8_t *at
        uint32_t length
    ctypedef struct silo_properties:
        silo_text tags, keys, unique_key
    void silo_find_properties(const uint8_t *p, uint32_t length, silo_properties *out)


cdef class Memory:
    cdef const unsigned char[::1] view
    cdef readonly object source
    cdef readonly int64_t base
    cdef readonly int64_t end
    cdef readonly str path
    cdef readonly tuple queue


cdef class MessageView:
    cdef Memory memory
    cdef const uint8_t *at
    cdef uint32_t length
    cdef int64_t queue_index
    cdef silo_record m

    cdef int parse(self) except -1
    cdef str find(self, int which)


cdef MessageView view_of(Memory memory, int64_t at, int64_t size, int64_t queue_offset)
