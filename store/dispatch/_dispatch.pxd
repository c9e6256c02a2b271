# The declarations of the dispatch kernel: from the shared headers, and its state.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from silomq.shm._bells cimport Bells, silo_bells

cdef extern from "store/topics/table.h" nogil:
    ctypedef struct silo_table:
        pass
    int QUEUE_MAX_OFFSET, QUEUE_SINCE
    void silo_table_open(silo_table *t, uint8_t *base)
    uint8_t *silo_queue(const silo_table *t, uint32_t slot)
    uint64_t silo_queue_hash(const uint8_t *name, uint32_t length, uint32_t queue_id)
    int64_t silo_find_hashed(const silo_table *t, uint64_t h, const uint8_t *name, uint32_t length,
                             uint32_t queue_id)
    void silo_load_bucket(const silo_table *t, uint64_t h)
    void silo_load_queue(const silo_table *t, uint64_t h)

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    int64_t silo_monotonic_ns()
    int silo_futex_wake(const void *p, int count)
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)
    void silo_put32(uint8_t *p, uint32_t v)
    void silo_put64(uint8_t *p, uint64_t v)
    void SILO_FAULT(const char *name)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, time_at
        uint32_t body_at, body_length, topic_at, topic_length, properties_at, properties_length
    int RECORD_OK, RECORD_END_OF_FILE, RECORD_QUEUE_ID, RECORD_QUEUE_OFFSET
    int FLAG_TRANSACTION, FLAG_ROLLBACK
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    bint silo_is_queued(const silo_record *m)

cdef extern from "store/record/properties.h" nogil:
    ctypedef struct silo_text:
        const uint8_t *at
        uint32_t length
    ctypedef struct silo_properties:
        silo_text tags, keys, unique_key, delay, light_offsets
    ctypedef struct silo_keys:
        pass
    void silo_first_key(const silo_properties *found, silo_keys *keys)
    int silo_next_key(silo_keys *keys, silo_text *key)
    void silo_find_properties(const uint8_t *p, uint32_t length, silo_properties *out)
    uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length)
    uint32_t silo_index_hash(uint32_t topic_hash, const uint8_t *key, uint32_t length)

cdef extern from "shm/layout.h" nogil:
    int CONTROL_DISPATCHED, CONTROL_DISPATCH_COUNT, CONTROL_PROGRESS_GENERATION
    int CONTROL_PROGRESS_0, CONTROL_PROGRESS_1, CONTROL_ARRIVAL, ARRIVAL_WORDS
    ctypedef struct silo_progress:
        uint64_t dispatched, dispatch_count, index_name, index_count, index_slots
        uint64_t begin_time, end_time, begin_offset, end_offset

cdef extern from "store/consumequeue/entries.h" nogil:
    int ENTRY_SIZE
    void silo_put_entry(uint8_t *entry, uint64_t offset, uint32_t size, uint64_t code)

cdef extern from "store/consumequeue/tags_code.h" nogil:
    int64_t silo_tags_code(const silo_record *m, const silo_properties *found,
                           const int64_t *delays, int levels)

cdef extern from "store/dispatch/light.h" nogil:
    ctypedef struct silo_window:
        uint8_t *base
        uint64_t first, end
    ctypedef struct silo_light_walk:
        uint32_t done, counted, slot, queue_id
        uint64_t need
        silo_text name
    int LIGHT_ENTRY, LIGHT_NEED_WINDOW, LIGHT_UNKNOWN
    int silo_next_light_entry(const silo_table *t, silo_window *windows, silo_light_walk *walk,
                              const uint8_t *r, uint64_t offset, uint32_t size, int64_t own,
                              uint64_t code)

cdef extern from "store/index/index.h" nogil:
    int INDEX_HEADER
    void silo_index_header(uint8_t *index, const silo_progress *s)
    uint64_t silo_index_undo(uint8_t *index, uint64_t slots, uint64_t entries, uint64_t count)
    uint64_t silo_index_relink(uint8_t *index, uint64_t slots, uint64_t count, uint32_t *heads)
    void silo_index_put(uint8_t *index, uint64_t slots, silo_progress *s, uint32_t key_hash,
                        uint64_t offset, uint64_t store_time)

cdef extern from "store/dispatch/readers.h" nogil:
    uint64_t silo_wake_readers(const uint8_t *control, uint64_t *arrivals, silo_bells *bells)

cdef extern from "limits.h":
    int INT_MAX

cdef extern from *:
    void __builtin_prefetch(const void *p, int rw, int locality) nogil
    int __builtin_ctzll(unsigned long long v) nogil

cdef enum:
    R_CAUGHT_UP = 0
    R_SLICE = 1
    R_NEXT_FILE = 2
    R_NEED_WINDOW = 3
    R_INDEX_FULL = 4
    R_UNKNOWN_QUEUE = 5
    R_BAD_RECORD = 6
    R_UNKNOWN_LIGHT = 7

cdef enum:
    GROUP = 32          # records that are processed together, so that their cache misses overlap
    RECORD_KEYS = 16400     # more keys than 32,767 bytes of properties can hold
    DELAY_LEVELS = 64

# A parsed record that waits to be dispatched.
cdef struct Pending:
    uint64_t offset
    uint32_t size
    bint queued         # gets a queue entry
    const uint8_t *topic
    uint32_t topic_length, queue_id
    uint64_t hash       # of topic and queue id
    int64_t slot        # -1: not queued
    uint64_t queue_offset
    int64_t tags_code
    uint64_t store_time
    uint32_t key_from, key_to
    bint light          # has offsets in light queues


cdef class Dispatcher:
    cdef object control_view, table_view, log_view, index_view
    cdef dict window_views
    cdef uint8_t *control
    cdef silo_table table
    cdef silo_window *windows
    cdef int max_queues
    cdef uint8_t *log
    cdef uint64_t log_base, log_size
    cdef uint8_t *index
    cdef uint64_t hash_slots, index_entries, index_room
    cdef silo_progress state
    cdef uint64_t arrivals[16]
    cdef Bells bells_view
    cdef silo_bells *bells          # NULL: none
    cdef Pending group[GROUP]
    cdef uint32_t *hashes           # of the group's keys, record by record
    cdef int grouped
    cdef uint64_t unqueued          # offset of a record that gets no queue entry
    cdef uint32_t keys_done         # keys of the next record that are in a full index file
    cdef silo_light_walk lights     # of the next record
    cdef int64_t delays[DELAY_LEVELS]
    cdef int delay_levels
    cdef readonly long need_slot
    cdef readonly uint64_t need_offset
    cdef readonly uint64_t woken    # wake-ups of arrival words on which readers slept

    cdef int work(self, size_t limit_word, int64_t slice_ns) noexcept nogil
    cdef int gather(self, uint64_t limit) noexcept nogil
    cdef void look(self, const silo_record *m, uint64_t offset, Pending *one,
                   uint32_t *keys) noexcept nogil
    cdef int resolve(self, int found) noexcept nogil
    cdef void add_keys(self, const silo_properties *found, uint32_t topic_hash,
                       uint32_t *count) noexcept nogil
    cdef void add_key(self, uint32_t key_hash, uint32_t *count) noexcept nogil
    cdef int write(self) noexcept nogil
    cdef int put_lights(self, const Pending *one) noexcept nogil
    cdef void note_arrival(self, uint64_t slot) noexcept nogil
    cdef int put_keys(self, const Pending *one) noexcept nogil
    cdef void write_index_header(self) noexcept nogil
    cdef void publish(self) noexcept nogil
