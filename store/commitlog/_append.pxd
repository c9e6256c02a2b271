# The declarations of the append kernel: from the shared headers, and its state.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from silomq.shm._pauses cimport silo_end_pause, silo_pauses

cdef extern from "shm/checksum.h" nogil:
    uint32_t silo_crc32(uint32_t seed, const uint8_t *p, size_t n)
    uint32_t silo_crc32c(uint32_t seed, const uint8_t *p, size_t n)

cdef extern from "store/topics/table.h" nogil:
    ctypedef struct silo_table:
        pass
    int QUEUE_ID, QUEUE_NEXT
    void silo_table_open(silo_table *t, uint8_t *base)
    uint64_t silo_queue_count(const silo_table *t)
    uint8_t *silo_queue(const silo_table *t, uint32_t slot)
    uint32_t silo_queue_u32(const uint8_t *q, int at)
    bint silo_topic_is(const silo_table *t, const uint8_t *q, const uint8_t *name, uint32_t length)
    void silo_load_next(const silo_table *t, const uint8_t *ring, uint64_t capacity, uint64_t place)
    bint silo_granted(const silo_table *t, uint32_t session, const uint8_t *q)

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    void silo_order()
    int64_t silo_monotonic_ns()
    int64_t silo_realtime_ms()
    int silo_futex_wake(const void *p, int count)
    uint32_t silo_be32(const uint8_t *p)
    void silo_put32(uint8_t *p, uint32_t v)
    void silo_put64(uint8_t *p, uint64_t v)
    void SILO_FAULT(const char *name)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, time_at
        uint32_t body_at, body_length, topic_at, topic_length, properties_at, properties_length
    int RECORD_OK, RECORD_LONG
    int RECORD_BODY_CRC, RECORD_QUEUE_ID, RECORD_QUEUE_OFFSET, RECORD_PHYSICAL_OFFSET
    int RECORD_FIXED, END_OF_FILE_SIZE, CRC_PROPERTY_SIZE, HOST_V6_SIZE
    int FLAG_COMPRESSED, FLAG_MULTI_TAGS, FLAG_COMPRESSION_TYPE
    int FLAG_TRANSACTION, FLAG_BORN_V6, FLAG_STORE_V6
    void silo_put_end_of_file(uint8_t *p, uint32_t left)
    bint silo_has_crc_property(const silo_record *m)
    void silo_put_crc_digits(uint8_t *p, uint32_t crc)
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    const uint8_t *silo_store_host(const silo_record *m)
    uint32_t silo_born_port(const silo_record *m)
    bint silo_is_queued(const silo_record *m)

cdef extern from "store/record/properties.h" nogil:
    bint silo_is_utf8(const uint8_t *p, uint32_t length)
    bint silo_may_name_light(const uint8_t *p, uint32_t length)

cdef extern from "shm/layout.h" nogil:
    int CONTROL_APPEND_MAIL, CONTROL_WROTE, CONTROL_STORE_TIME_MS, CONTROL_RECORDS
    int CONTROL_APPEND_ASLEEP, CONTROL_CROWDED, CONTROL_FLUSH_ASLEEP
    int RING_HEAD, RING_PRODUCER_ASLEEP, RING_TAIL, RING_CLOSED, RING_REJECTED, RING_DATA
    int FRAME_HEADER, FRAME_RESULT, FRAME_CHECKED, KIND_RECORDS, KIND_PAD
    ctypedef struct silo_frame:
        uint32_t length, kind, crc, record_bytes, count, queue_slot, flags, sent_us
    bint silo_read_frame(const uint8_t *ring, uint64_t capacity, uint64_t place, uint64_t left,
                         silo_frame *out)

    int BELL_ANSWERS

cdef extern from "shm/metrics.h" nogil:
    ctypedef struct silo_puts:
        pass
    void silo_note_put(silo_puts *puts, uint8_t *metrics, uint32_t sent_us, uint64_t bytes)
    void silo_count_puts(silo_puts *puts, uint8_t *metrics)

cdef extern from "shm/bells.h" nogil:
    ctypedef struct silo_bell:
        const uint8_t *page
        uint64_t rung
        int end
    void silo_ring_now(const silo_bell *bell)
    bint silo_ring_bell(silo_bell *bell, uint64_t reason)

cdef extern from "store/commitlog/light.h" nogil:
    void silo_mark_next(uint8_t *q, uint64_t next, uint64_t wrote)
    bint silo_lights_are_good(const silo_table *t, uint32_t session, const silo_record *m,
                              const uint8_t *main, bint enabled)
    void silo_number_lights(const silo_table *t, const silo_record *m, uint64_t wrote)

cdef extern from "store/commitlog/staging.h" nogil:
    ctypedef struct silo_staging:
        uint8_t *bytes
        uint64_t room
        uint64_t from_ "from"
        int fd, mapped, error
    void silo_write_staged(silo_staging *s, uint8_t *file, uint64_t to)
    uint8_t *silo_stage(silo_staging *s, uint8_t *file, uint64_t at, uint64_t length)

cdef extern from "store/commitlog/turns.h" nogil:
    ctypedef struct silo_flow:
        uint64_t end
        uint32_t uid, backlog
    ctypedef struct silo_ring:
        uint8_t *base
        uint64_t capacity, tail, at, published, rejected
        uint32_t session
        int attached
        silo_flow flow
        silo_bell bell
    ctypedef struct silo_turn:
        silo_ring *ring
        uint64_t due
        uint32_t backlog
    ctypedef struct silo_rings:
        silo_ring *all
        silo_ring **used
        silo_turn *turns
        int count
    ctypedef struct silo_census:
        int64_t end
        int cores, crowded, behind, streams
    void silo_count_ring(silo_census *census, silo_ring *ring)
    bint silo_end_census(silo_census *census, int64_t now)
    bint silo_make_rings(silo_rings *rings, int most)
    void silo_free_rings(silo_rings *rings)
    void silo_use_ring(silo_rings *rings, silo_ring *ring)
    void silo_forget_ring(silo_rings *rings, silo_ring *ring)
    int silo_find_turns(silo_rings *rings, uint64_t clock, uint64_t share)
    int silo_end_turn(silo_turn *turns, int count, int at, uint64_t bytes, int more)

cdef extern from "store/commitlog/answers.h" nogil:
    void silo_accept(uint8_t *frame, uint64_t physical, uint64_t queue_offset, int64_t time_ms)
    void silo_refuse(silo_ring *ring, uint8_t *frame, int status, uint8_t *control,
                     uint8_t *metrics)

cdef extern from "store/commitlog/settle.h" nogil:
    uint64_t silo_settle(silo_ring *ring, uint64_t wrote)
    uint64_t silo_roll_back(const silo_table *t, uint64_t wrote)

cdef extern from "store/commitlog/rest.h" nogil:
    ctypedef struct silo_rest:
        int epoll, inbox, signals
        silo_pauses pauses
    int64_t silo_spin_on(silo_rest *rest, const silo_census *census, int64_t now, int64_t spin_ns)
    bint silo_announce(uint8_t *control, const silo_rings *rings, uint64_t seen_mail)
    bint silo_sleep(const silo_rest *rest, uint8_t *control, const silo_rings *rings,
                    uint64_t seen_mail, int64_t until)

cdef extern from "limits.h":
    int INT_MAX

cdef enum:
    PUT_OK = 0
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    MAX_PORT = 65535
    STAGED = 262144  # bytes: a longer batch takes several writes
    TURNS = 4  # of rings that always have work, in a batch

cdef enum:
    R_IDLE = 0
    R_SLICE = 1
    R_MAIL = 2
    R_ROLL = 3
    R_BAD_RING = 4

cdef class Appender:
    cdef object control_view, table_view, file_view, metrics_view
    cdef list ring_views, page_views
    cdef uint8_t *control
    cdef silo_table table
    cdef silo_rings rings
    cdef uint64_t clock             # virtual bytes, see turns.h
    cdef uint8_t *file
    cdef uint64_t file_base, file_size
    cdef silo_staging staging
    cdef uint64_t wrote             # published
    cdef uint64_t cursor            # end of the batch so far
    cdef uint64_t records
    cdef uint8_t *metrics           # the metrics page (shm/metrics.py), or NULL
    cdef silo_puts puts
    cdef int64_t now_ms
    cdef uint64_t batch_bytes, share    # share: the most of a ring in a turn, beside others
    cdef uint32_t max_body
    cdef uint8_t store_host[20]
    cdef uint32_t store_host_length
    cdef bint append_crc, light
    cdef bint names_light           # whether a record of this frame may name a light queue
    cdef size_t sleeper
    cdef silo_rest rest             # while no ring has work
    cdef silo_census census         # of the rings that have work
    cdef uint64_t seen_mail
    cdef readonly int bad_ring      # set when `run` returns BAD_RING
    cdef public int refuse_status   # unless PUT_OK, the answer to every frame

    cdef int work(self, int64_t spin_ns, int64_t slice_ns, bint sleeps) noexcept nogil
    cdef int batch(self) noexcept nogil
    cdef int drain(self, silo_ring *ring, uint64_t most, uint64_t *taken) noexcept nogil
    cdef int append_frame(self, silo_ring *ring, uint8_t *p, const silo_frame *frame) noexcept nogil
    cdef int check(self, const uint8_t *r, const silo_frame *frame, const uint8_t *q,
                   uint32_t session) noexcept nogil
    cdef void finish(self, uint8_t *r, const silo_frame *frame, uint8_t *q,
                     uint8_t *p) noexcept nogil
    cdef void stamp(self, uint8_t *r, const silo_record *m) noexcept nogil
    cdef void publish(self) noexcept nogil
    cdef int end_file(self) noexcept nogil
