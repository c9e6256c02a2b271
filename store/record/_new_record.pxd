# A new record up to its properties (new_record.h).

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "store/record/new_record.h" nogil:
    ctypedef struct silo_new_record:
        const uint8_t *body
        const uint8_t *topic
        const uint8_t *born_host
        const uint8_t *store_host
        uint32_t total, queue_id, flag, sys_flag
        uint32_t body_length, topic_length, properties_length, born_host_length, store_host_length
        int64_t born_ms
    uint8_t *silo_begin_record(uint8_t *r, const silo_new_record *n)
