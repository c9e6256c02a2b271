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

cdef extern from "store/consumequeue/entries.h" nogil:
    ctypedef struct silo_walk:
        const uint8_t *entries
        int64_t number, next
        const int32_t *codes
        int64_t code_count, base, end, limit, max_bytes, at, size
    int ENTRY_FOUND, ENTRY_ALL, ENTRY_FULL, ENTRY_ELSEWHERE, ENTRY_BAD, ENTRY_SIZE
    int silo_next_entry(silo_walk *w)
