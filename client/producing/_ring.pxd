# A session's ring as its producer sees it, and the frames in it whose answers are awaited.

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "client/producing/seal.h" nogil:
    void silo_seal(uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait, uint32_t sent_us)

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    int64_t silo_monotonic_ns()
    int64_t silo_realtime_us()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)

cdef extern from "shm/spin.h" nogil:
    ctypedef struct silo_spin:
        pass
    bint silo_spins_on(const silo_spin *spin, int64_t now, bint crowded)
    int64_t silo_spin_turn(silo_spin *spin, int64_t began, int64_t now, bint crowded)

cdef extern from "shm/layout.h" nogil:
    int CONTROL_APPEND_ASLEEP, CONTROL_CROWDED, CONTROL_FLUSHED
    int BELL_ANSWERS, BELL_FLUSHED
    int RING_HEAD, RING_PRODUCER_ASLEEP, RING_TAIL, RING_CLOSED, RING_REJECTED, RING_DATA
    int FRAME_HEADER, FRAME_RESULT, KIND_RECORDS, KIND_PAD
    ctypedef struct silo_frame:
        uint32_t length, kind, crc, record_bytes, count, queue_slot, flags, sent_us
    ctypedef struct silo_result:
        int64_t status, physical_offset, queue_offset, store_timestamp

from silomq.client._bell cimport Bell

cdef extern from "unistd.h":
    ssize_t write(int fd, const void *p, size_t n) nogil

cdef extern from *:
    uint64_t __atomic_fetch_add(uint64_t *p, uint64_t v, int order) nogil
    int __ATOMIC_SEQ_CST

# The values of PutMessageStatus that the ring uses.
cdef enum:
    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1

# The states of a Pending.
cdef enum:
    P_PUBLISHED = 0
    P_APPENDED = 1      # answered by append, waits for the sync
    P_DONE = 2
    P_FAILED = 3        # refused by the store, or failed by its session

# How a wait for a Pending ended.
cdef enum:
    W_DONE = 0
    W_LATE = 1          # the deadline has passed
    W_NO_PROGRESS = 2   # the awaited word has not changed for a while


cdef inline uint64_t frame_length(uint64_t record_bytes) noexcept:
    """Bytes that a frame with `record_bytes` bytes of records takes in the ring."""
    return (FRAME_HEADER + record_bytes + 63) & ~<uint64_t>63


cdef inline int64_t deadline_after(double seconds) noexcept:
    """The monotonic time (ns) in `seconds` from now; the last one if that is further away."""
    if seconds >= 1e9:
        return INT64_MAX
    return silo_monotonic_ns() + <int64_t>(seconds * 1e9)


cdef class Pending:
    cdef Pending next
    cdef uint64_t at, end           # the frame's position, and the ring's counter behind it
    cdef silo_result outcome
    cdef uint32_t record_bytes
    cdef bint needs_sync            # resolved when `flushed` has passed it
    cdef bint watched               # appended to `told` when it is resolved
    cdef int state
    cdef uint64_t durable_end
    cdef int64_t deadline           # of the sync


cdef class Ring:
    cdef object ring_view, control_view
    cdef uint8_t *ring
    cdef const uint8_t *control
    cdef readonly uint64_t capacity, largest, head, tail, generation
    cdef uint64_t at
    cdef int bell
    cdef readonly int level
    cdef readonly uint32_t holds
    cdef readonly int watched
    cdef list told
    cdef Pending first, last, first_unsynced, last_unsynced
    cdef int64_t spin_ns, sync_timeout_ns
    cdef silo_spin spin
    cdef uint32_t sent_us           # of the next frame: the clock's epoch us, their low half
    cdef readonly Bell own_bell     # None until it is asked for
    cdef int armed                  # the reasons for which it was armed since it was drained

    cdef uint8_t *reserve(self, uint64_t length) noexcept
    cdef void expect(self, Pending pending, uint64_t length, uint32_t record_bytes) noexcept
    cdef void seal(self, uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait) noexcept
    cdef void publish(self, uint8_t *frame, uint64_t length) noexcept
    cdef int reap(self) except -1
    cdef int reap_synced(self) except -1
    cdef int resolve(self, Pending pending, int state) except -1
    cdef int watch(self, Pending pending) except -1
    cdef int wait_for(self, Pending pending, int64_t deadline) except -1
    cdef bint wait_change(self, const uint8_t *word, uint64_t seen, int64_t timeout_ns,
                          int64_t spin_ns)
