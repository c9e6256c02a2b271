# What the producer's kernel takes from the shared headers, and its state.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "store/checksum.h" nogil:
    uint32_t silo_crc32(uint32_t seed, const uint8_t *p, size_t n)
    uint32_t silo_crc32c(uint32_t seed, const uint8_t *p, size_t n)

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    void silo_pause()
    int64_t silo_monotonic_ns()
    int64_t silo_realtime_ms()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)
    void silo_put16(uint8_t *p, uint32_t v)
    void silo_put32(uint8_t *p, uint32_t v)
    void silo_put64(uint8_t *p, uint64_t v)

cdef extern from "store/record.h" nogil:
    ctypedef struct silo_record:
        uint32_t total, body_at, body_length
    int RECORD_BODY_LENGTH, RECORD_FIXED, FLAG_BORN_V6, FLAG_STORE_V6, CRC_PROPERTY_SIZE
    uint32_t RECORD_MAGIC_V1, RECORD_MAGIC_V2
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)

cdef extern from "shm/layout.h" nogil:
    int CONTROL_APPEND_ASLEEP, CONTROL_FLUSHED
    int RING_HEAD, RING_PRODUCER_ASLEEP, RING_TAIL, RING_CLOSED, RING_REJECTED, RING_DATA
    int FRAME_HEADER, FRAME_RESULT, FRAME_CHECKED, KIND_RECORDS, KIND_PAD
    ctypedef struct silo_frame:
        uint32_t length, kind, crc, record_bytes, count, queue_slot, flags, reserved
    ctypedef struct silo_result:
        int64_t status, physical_offset, queue_offset, store_timestamp

cdef extern from "unistd.h":
    ssize_t write(int fd, const void *p, size_t n) nogil

cdef extern from "store/properties.h" nogil:
    uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length)

cdef extern from *:
    uint64_t __atomic_fetch_add(uint64_t *p, uint64_t v, int order) nogil
    int __ATOMIC_SEQ_CST
    void __builtin_prefetch(const void *p, int rw, int locality) nogil

cdef enum:
    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    MAX_PROPERTIES = 32767
    UNIQUE_KEY_PAIR = 42    # "UNIQ_KEY" 0x01, 32 digits, 0x02
    PREFIX = 20             # digits of a unique key that never change within a producer

# Where a future is.
cdef enum:
    F_PENDING = 0
    F_APPENDED = 1          # waits for the sync
    F_DONE = 2
    F_FAILED = 3

# One message's parts while it is measured and written.
cdef struct Parts:
    const uint8_t *body
    const uint8_t *tags
    const uint8_t *keys
    const uint8_t *extra    # encoded pairs of user properties and WAIT
    Py_ssize_t body_length, tags_length, keys_length, extra_length
    uint32_t properties_length, total, flag
    int64_t born


cdef class Message:
    cdef readonly object body, tags, keys, properties
    cdef readonly uint32_t flag
    cdef readonly int64_t born_timestamp
    cdef bytes extra
    cdef object keys_text


cdef class Route:
    cdef readonly str topic
    cdef readonly tuple slots
    cdef bytes encoded
    cdef uint32_t turn
    cdef uint32_t queue_count
    cdef const uint8_t *name
    cdef uint32_t name_length
    cdef bint wide
    cdef unsigned int[::1] slot_array
    cdef uint32_t *slot_of

    cdef uint32_t choose(self, object queue, object shard_key) except? 0xFFFFFFFF


cdef class SendFuture:
    cdef RingProducer producer
    cdef SendFuture next
    cdef uint64_t end, at
    cdef int state
    cdef silo_result outcome
    cdef uint64_t durable_end
    cdef int64_t deadline
    cdef readonly str topic
    cdef readonly int queue_id
    cdef readonly uint32_t count
    cdef uint32_t record_bytes
    cdef bint wait_durable
    cdef uint32_t key_time
    cdef uint16_t key_counter, key_wrap
    cdef bytes key_prefix, lengths
    cdef list callbacks
    cdef object error

    cdef object make_result(self)


cdef class RingProducer:
    cdef object ring_view, control_view
    cdef uint8_t *ring
    cdef const uint8_t *control
    cdef uint64_t capacity, largest
    cdef uint64_t head, at, tail
    cdef int bell
    cdef readonly dict routes
    cdef SendFuture first, last, first_durable, last_durable
    cdef public int waiting         # futures that have callbacks, for the thread that serves them
    cdef uint8_t store_host[20]
    cdef uint8_t born_host[20]
    cdef uint32_t store_host_length, born_host_length, sys_flag
    cdef uint32_t max_body
    cdef bint sync_flush, append_crc
    cdef int64_t spin_ns, sync_timeout_ns
    cdef readonly double send_timeout_s
    cdef bytes key_prefix
    cdef uint8_t key_text[32]
    cdef int64_t key_epoch_ms
    cdef uint32_t key_time
    cdef uint16_t key_counter, key_wrap
    cdef int64_t now_ms
    cdef readonly object closed     # None, or the exception that every further call raises

    cdef Route route(self, object topic)
    cdef int measure(self, Route route, Parts *m) except -1
    cdef uint8_t *reserve(self, uint64_t length, double timeout_s) except NULL
    cdef int make_room(self, uint64_t need, int64_t deadline) except -1
    cdef void fill_key(self) noexcept
    cdef void refresh_time(self) noexcept
    cdef uint8_t *encode(self, uint8_t *r, Route route, uint32_t queue_id, const Parts *m) noexcept
    cdef void publish(self, uint8_t *frame, uint64_t length) noexcept
    cdef void seal(self, uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait) noexcept
    cdef int take(self, list items, uint32_t i, bint wait_store, Parts *m) except -1
    cdef SendFuture put(self, object topic, object body, object tags, object keys, object properties,
                        uint32_t flag, object queue, object shard_key, object born,
                        bint wait_store, bint want, double timeout_s)
    cdef SendFuture put_batch(self, object topic, object messages, object queue, object shard_key,
                              bint wait_store, bint want, double timeout_s)
    cdef SendFuture promise(self, Route route, uint32_t queue_id, uint64_t length,
                            uint32_t record_bytes, uint32_t count, bint wait_store)
    cdef int reap(self) except -1
    cdef list finish(self, SendFuture future, int state, list ready)
    cdef int wait_change(self, const uint8_t *word, uint64_t seen, double timeout_s) except -1
