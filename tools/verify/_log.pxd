# The declarations of the kernel of the log's check: from the shared headers, and its structs.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "shm/layout.h" nogil:
    pass

cdef extern from "store/topics/table.h" nogil:
    uint64_t silo_queue_hash(const uint8_t *name, uint32_t length, uint32_t queue_id)

cdef extern from "store/consumequeue/entries.h" nogil:
    int ENTRY_SIZE, ENTRY_AT_OFFSET, ENTRY_AT_SIZE, ENTRY_AT_TAGS_CODE

cdef extern from "store/index/index.h" nogil:
    int INDEX_HEADER, INDEX_SLOT, INDEX_ENTRY
    int INDEX_KEY_HASH, INDEX_PHY_OFFSET, INDEX_TIME_DIFF

cdef extern from "store/record/properties.h" nogil:
    ctypedef struct silo_text:
        const uint8_t *at
        uint32_t length
    ctypedef struct silo_properties:
        silo_text tags, keys, unique_key, delay
    ctypedef struct silo_keys:
        pass
    void silo_find_properties(const uint8_t *p, uint32_t length, silo_properties *out)
    void silo_first_key(const silo_properties *found, silo_keys *keys)
    int silo_next_key(silo_keys *keys, silo_text *key)
    uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length)
    uint32_t silo_index_hash(uint32_t topic_hash, const uint8_t *key, uint32_t length)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, time_at
        uint32_t body_at, body_length, topic_at, topic_length, properties_at, properties_length
    int RECORD_OK, RECORD_QUEUE_ID, RECORD_QUEUE_OFFSET
    int FLAG_TRANSACTION, FLAG_ROLLBACK
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    int silo_is_queued(const silo_record *m)

cdef extern from "store/consumequeue/tags_code.h" nogil:
    int64_t silo_tags_code(const silo_record *m, const silo_properties *found,
                           const int64_t *delays, int levels)

cdef extern from "store/record/whole.h" nogil:
    int silo_is_whole(const silo_record *m, uint64_t offset)

cdef enum:
    LEVELS = 128
    GROWTH = 64

ctypedef struct Queue:
    const uint8_t *name
    uint64_t hash
    uint32_t length, id
    int64_t below            # records below this address belong to a deleted topic
    const uint8_t *entries   # the window; NULL if there is no such file
    int64_t first, end       # the window's queue offsets
    int64_t matched          # records whose entry in the window is the right one

ctypedef struct IndexRun:
    const uint8_t *entries   # entry 0, which is never used
    int64_t at, count        # the next entry, the number behind the last one
    int64_t begin_ms
    int64_t matched          # entries that are the right ones for their records

# What the checks of one record have found, before anything is counted.
ctypedef struct Found:
    Queue *queue             # with the right entry; NULL if there is none
    int pending, before, findings
