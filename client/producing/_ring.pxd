# What the producer's kernel takes from the shared headers, and its state.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from silomq.client.producing._encode cimport Encoder
from silomq.client.producing._future cimport SendFuture
from silomq.client.producing._message cimport Route

cdef extern from "store/record/checksum.h" nogil:
    uint32_t silo_crc32c(uint32_t seed, const uint8_t *p, size_t n)

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    void silo_relax(int64_t waited_ns)
    int64_t silo_monotonic_ns()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        uint32_t total, body_at, body_length
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

cdef extern from *:
    uint64_t __atomic_fetch_add(uint64_t *p, uint64_t v, int order) nogil
    int __ATOMIC_SEQ_CST
    void __builtin_prefetch(const void *p, int rw, int locality) nogil

cdef enum:
    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1


cdef class RingProducer:
    cdef object ring_view, control_view
    cdef uint8_t *ring
    cdef const uint8_t *control
    cdef uint64_t capacity, largest
    cdef uint64_t head, at, tail
    cdef int bell
    cdef uint64_t generation        # counts the sessions: routes are a session's
    cdef Encoder encoder
    cdef int level
    cdef readonly dict routes
    cdef SendFuture first, last, first_durable, last_durable
    cdef public int waiting         # futures that have callbacks, for the thread that serves them
    cdef public bint stalled        # a wait found append stuck: look again before each put
    cdef int64_t spin_ns, sync_timeout_ns
    cdef readonly double send_timeout_s
    cdef readonly object closed     # None, or the exception that every further call raises

    cdef uint8_t *reserve(self, uint64_t length, double timeout_s) except NULL
    cdef int make_room(self, uint64_t need, int64_t deadline) except -1
    cdef void publish(self, uint8_t *frame, uint64_t length) noexcept
    cdef void seal(self, uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait) noexcept
    cdef SendFuture promise(self, Route route, uint32_t queue_id, uint64_t length,
                            uint32_t record_bytes, uint32_t count, bint wait_store)
    cdef int reap(self) except -1
    cdef list finish(self, SendFuture future, int state, list ready)
    cdef int wait_change(self, const uint8_t *word, uint64_t seen, double timeout_s,
                         bint briefly=*) except -1
