# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The append kernel: from the producers' rings into the commit log.

A batch takes frames from rings in fair turns. The package's docstring (`__init__.py`) numbers its
steps and says why a kill between two of them is harmless. The kernel opens no files and serves no
sockets. Rings are hostile memory: it reads a frame's header once, and checks its own copy.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

# The bits of sysFlag that a producer may set.
cdef uint32_t ALLOWED_FLAGS = (FLAG_COMPRESSED | FLAG_MULTI_TAGS | FLAG_COMPRESSION_TYPE
                               | FLAG_TRANSACTION | FLAG_BORN_V6 | FLAG_STORE_V6)

IDLE, SLICE, MAIL, ROLL, BAD_RING = range(5)


cdef class Appender:
    """Appends the frames of up to `max_sessions` rings. `control` and `table` are writable memory.
    Every record gets the `store_host` (8 or 20 bytes). A batch ends with the frame that takes it to
    `batch_bytes` of frames. Bodies have at most `max_body` bytes. With `append_crc` records must
    end in `__CRC32#`, and append writes its digits. With `light` they may name light queues.
    `sleeper` is the position of the control word of another process that sleeps on `wrote`, or 0.
    Append and producers run on `cores` cores. With `metrics`, the metrics page, it counts there.
    """

    def __cinit__(self, unsigned char[::1] control, unsigned char[::1] table, int max_sessions, *,
                  bytes store_host, uint64_t batch_bytes, uint32_t max_body, bint append_crc,
                  bint light, size_t sleeper, int cores, unsigned char[::1] metrics=None):
        self.control_view = control
        self.table_view = table
        self.control = &control[0]
        silo_table_open(&self.table, &table[0])
        self.staging.bytes = <uint8_t *>calloc(1, STAGED)
        if not silo_make_rings(&self.rings, max_sessions) or self.staging.bytes == NULL:
            raise MemoryError
        self.ring_views, self.page_views = [None] * max_sessions, [None] * max_sessions
        self.store_host_length = len(store_host)
        memcpy(self.store_host, <const char *>store_host, self.store_host_length)
        self.batch_bytes, self.share = batch_bytes, 1 + batch_bytes / TURNS
        self.max_body, self.sleeper, self.census.cores = max_body, sleeper, cores
        silo_store(self.control + CONTROL_CROWDED, 0)
        self.append_crc, self.light = append_crc, light
        self.wrote = self.cursor = silo_load(self.control + CONTROL_WROTE)
        self.records = silo_load(self.control + CONTROL_RECORDS)
        self.now_ms = <int64_t>silo_load(self.control + CONTROL_STORE_TIME_MS)
        self.seen_mail = silo_load(self.control + CONTROL_APPEND_MAIL)
        self.refuse_status = PUT_OK
        if metrics is not None:
            self.metrics_view = metrics
            self.metrics = &metrics[0]

    def __dealloc__(self):
        silo_free_rings(&self.rings)
        free(self.staging.bytes)

    @property
    def position(self): return self.wrote

    @property  # errno of the last failed write of a batch, which was stored mapped then, or 0
    def write_error(self): return self.staging.error

    def set_file(self, unsigned char[::1] memory not None, uint64_t base, int fd=-1):
        """Sets the file to write, from log offset `base` on: mapped at `memory`, and if batches are
        staged, open as `fd`."""
        assert base <= self.wrote < base + memory.shape[0]
        self.file_view = memory
        self.file = &memory[0]
        self.file_base, self.file_size = base, memory.shape[0]
        self.staging.from_, self.staging.fd = self.wrote - base, fd
        self.staging.room = STAGED if fd >= 0 else 0

    def no_file(self):
        """Unsets the file: frames wait for the next one, or are refused with `refuse_status`."""
        self.file_view = None
        self.file = NULL
        self.file_size = 0

    def attach(self, int index, unsigned char[::1] memory not None, uint64_t capacity,
               uint32_t session, uint32_t uid):
        """Adds a ring of user `uid` under the number `index`, to be read from its tail on."""
        cdef silo_ring *ring = &self.rings.all[index]
        assert <uint64_t>memory.shape[0] == RING_DATA + capacity
        self.ring_views[index] = memory
        ring.base = &memory[0]
        ring.capacity = capacity
        ring.session = session
        ring.flow.uid, ring.flow.end, ring.flow.backlog = uid, 0, 0
        ring.tail = ring.published = silo_load(ring.base + RING_TAIL)
        ring.at = ring.tail % capacity
        ring.rejected = silo_load(ring.base + RING_REJECTED)
        ring.bell.page = NULL
        silo_use_ring(&self.rings, ring)

    def attach_bell(self, int index, const unsigned char[::1] page not None, int end):
        """Adds the bell of a ring's session, or replaces it, and rings it. `page` is the client's
        bell page. The caller keeps `end`, the store's end of the sockets."""
        cdef silo_bell *bell = &self.rings.all[index].bell
        self.page_views[index] = page
        bell.page, bell.end, bell.rung = &page[0], end, 0
        silo_ring_now(bell)

    def detach(self, int index, uint64_t why=0):
        """Stops reading a ring. With `why` (a RingClosed), first tells its producer."""
        cdef silo_ring *ring = &self.rings.all[index]
        if not ring.attached:
            return
        if why:
            silo_store(ring.base + RING_CLOSED, why)
            silo_futex_wake(ring.base + RING_TAIL, INT_MAX)
            if ring.bell.page != NULL:
                silo_ring_now(&ring.bell)
        silo_forget_ring(&self.rings, ring)
        ring.bell.page = NULL
        self.ring_views[index] = self.page_views[index] = None

    def drained(self, int index):
        """Whether every whole frame that the ring's producer published has been answered."""
        cdef silo_ring *ring = &self.rings.all[index]
        return not ring.attached or silo_load(ring.base + RING_HEAD) == ring.published

    def roll_back(self):
        """Rolls back the queue offsets that a dead append's unpublished batch has moved. Returns
        the number of queues."""
        return silo_roll_back(&self.table, self.wrote)

    def settle(self, int index):
        """Acknowledges the frames that a dead append answered, and erases the results of the rest.

        Frames are answered in order: all up to the last one whose result lies below `wrote` were.
        All rings must be settled before the first append. Returns the acknowledged bytes."""
        return silo_settle(&self.rings.all[index], self.wrote)

    def rest_in(self, int epoll, int inbox, int signals):
        """Has `run` sleep in this epoll, until a session rings. The caller reads the other two."""
        self.rest.epoll, self.rest.inbox, self.rest.signals = epoll, inbox, signals

    def announce_sleep(self):
        """Announces sleep. False, and awake again, if a ring or the mail has work after all."""
        return silo_announce(self.control, &self.rings, self.seen_mail)

    def announce_awake(self):
        silo_store(self.control + CONTROL_APPEND_ASLEEP, 0)

    def run(self, int64_t spin_ns, int64_t slice_ns, *, bint sleeps=False):
        """Appends for `slice_ns`, or until the caller must act. Without work it spins for up to
        `spin_ns`, then it sleeps if it may, and returns if it may not."""
        cdef int reason
        with nogil:
            reason = self.work(spin_ns, slice_ns, sleeps)
        if reason == R_MAIL:
            self.seen_mail = silo_load(self.control + CONTROL_APPEND_MAIL)
        return reason

    cdef int work(self, int64_t spin_ns, int64_t slice_ns, bint sleeps) noexcept nogil:
        cdef int64_t start = silo_monotonic_ns(), now = start, before, after
        cdef int reason
        if not sleeps:
            self.rest.pauses.since = start
        while True:
            before = now
            reason = self.batch()
            if reason == R_ROLL or reason == R_BAD_RING:
                return reason
            if silo_load(self.control + CONTROL_APPEND_MAIL) != self.seen_mail:
                return R_MAIL
            now = silo_monotonic_ns()
            if now >= self.census.end and silo_end_census(&self.census, now):
                silo_store(self.control + CONTROL_CROWDED, self.census.crowded)
            if reason == R_SLICE:
                silo_end_pause(&self.rest.pauses, before, spin_ns)
                self.rest.pauses.since = now
            else:
                after = silo_spin_on(&self.rest, &self.census, now, spin_ns)
                if after:
                    now = after
                elif sleeps and silo_sleep(&self.rest, self.control, &self.rings, self.seen_mail,
                                           start + slice_ns):
                    now = silo_monotonic_ns()
                else:
                    return R_IDLE
            if now - start >= slice_ns:
                return R_SLICE

    cdef int batch(self) noexcept nogil:
        """Takes `batch_bytes` of frames: R_IDLE without work, R_SLICE after work, else the reason.

        Rings with little work get a batch of their own: their producers wait for no full one."""
        cdef int k = 0, trouble = R_IDLE, count, all_taken = True, more
        cdef uint64_t taken, left = self.batch_bytes, most
        cdef silo_ring *ring
        count = silo_find_turns(&self.rings, self.clock, self.share)
        if count == 0:
            return R_IDLE
        most = self.share if count > 1 else left
        while k < count and left and not (k and all_taken and self.rings.turns[k].backlog):
            ring = self.rings.turns[k].ring
            self.bad_ring = <int>(ring - self.rings.all)
            silo_count_ring(&self.census, ring)
            trouble = self.drain(ring, most, &taken)
            more = taken >= most and trouble == R_IDLE
            all_taken = all_taken and not more
            self.clock = self.rings.turns[k].due
            left -= taken if taken < left else left
            k = silo_end_turn(self.rings.turns, count, k, taken, more)
            if trouble != R_IDLE:
                break
        self.publish()
        if trouble == R_ROLL:
            return self.end_file()
        return R_SLICE if trouble == R_IDLE else trouble

    cdef int drain(self, silo_ring *ring, uint64_t most, uint64_t *taken) noexcept nogil:
        """Steps 1 to 3 for one ring, until `most` bytes are taken, refused ones included: R_IDLE,
        R_ROLL (a frame needs a new file) or R_BAD_RING. A pad counts as a header."""
        cdef uint64_t head = silo_load(ring.base + RING_HEAD)  # SYNC: ring-head observe
        cdef int64_t now = silo_realtime_ms()  # after head: no record is stored before its birth
        cdef uint8_t *p
        cdef silo_frame frame
        cdef int status
        if now > self.now_ms:
            self.now_ms = now
        taken[0] = 0
        while ring.tail != head and taken[0] < most:
            p = ring.base + RING_DATA + ring.at
            if not silo_read_frame(ring.base, ring.capacity, ring.at, head - ring.tail, &frame):
                return R_BAD_RING
            silo_load_next(&self.table, ring.base, ring.capacity, ring.at + frame.length)
            if frame.kind != KIND_PAD:
                status = self.append_frame(ring, p, &frame)
                if status < 0:
                    return R_ROLL
                if status != PUT_OK:
                    silo_refuse(ring, p, status, self.control, self.metrics)
            self.census.behind += 1
            taken[0] += frame.length if frame.kind != KIND_PAD else FRAME_HEADER
            ring.tail += frame.length
            ring.at += frame.length
            if ring.at == ring.capacity:
                ring.at = 0
        return R_IDLE

    cdef int append_frame(self, silo_ring *ring, uint8_t *p, silo_frame *frame) noexcept nogil:
        """Appends one frame at the cursor. Returns a put status, or -1 if it needs a new file."""
        cdef uint8_t *to
        cdef uint8_t *q
        cdef uint64_t room = <uint64_t>frame.record_bytes + END_OF_FILE_SIZE
        cdef int status
        if self.refuse_status != PUT_OK:
            return self.refuse_status
        if (frame.kind != KIND_RECORDS or frame.record_bytes > frame.length - FRAME_HEADER
                or frame.count == 0 or frame.record_bytes / RECORD_FIXED < frame.count
                or frame.queue_slot >= silo_queue_count(&self.table)):
            return MESSAGE_ILLEGAL
        q = silo_queue(&self.table, frame.queue_slot)
        if not silo_granted(&self.table, ring.session, q):
            return MESSAGE_ILLEGAL
        if self.file == NULL:
            return -1
        if room > self.file_size:
            return MESSAGE_ILLEGAL
        if room > self.file_base + self.file_size - self.cursor:
            return -1
        to = silo_stage(&self.staging, self.file, self.cursor - self.file_base, frame.record_bytes)
        memcpy(to, p + FRAME_HEADER, frame.record_bytes)  # step 1
        SILO_FAULT("append:copied")
        status = self.check(to, frame, q, ring.session)
        if status != PUT_OK:
            memset(to, 0, frame.record_bytes)
            return status
        self.finish(to, frame, q, p)
        return PUT_OK

    cdef int check(self, const uint8_t *r, const silo_frame *frame, const uint8_t *q,
                   uint32_t session) noexcept nogil:
        """PUT_OK if the copy is `count` records of queue `q` that recovery will accept."""
        cdef silo_record m
        cdef uint32_t left = frame.record_bytes, body_crc, body_end
        cdef int i, parsed
        cdef uint32_t crc = silo_crc32c(
            0, <const uint8_t *>frame + FRAME_CHECKED, FRAME_RESULT - FRAME_CHECKED)
        self.names_light = False
        for i in range(<int>frame.count):
            parsed = silo_parse_record(r, left, &m)
            if parsed == RECORD_LONG:
                return PROPERTIES_SIZE_EXCEEDED
            if (parsed != RECORD_OK or m.body_length > self.max_body or m.flags & ~ALLOWED_FLAGS
                    or (m.flags & FLAG_STORE_V6 != 0) != (self.store_host_length == HOST_V6_SIZE)):
                return MESSAGE_ILLEGAL
            if (silo_born_port(&m) > MAX_PORT
                    or not silo_is_utf8(r + m.properties_at, m.properties_length)):
                return MESSAGE_ILLEGAL
            crc = silo_crc32c(crc, r, m.body_at)
            body_end = m.body_at + m.body_length
            crc = silo_crc32c(crc, r + body_end, m.total - body_end)
            body_crc = silo_crc32(0, r + m.body_at, m.body_length) & 0x7FFFFFFF
            if (silo_be32(r + RECORD_BODY_CRC) != body_crc
                    or silo_be32(r + RECORD_QUEUE_ID) != silo_queue_u32(q, QUEUE_ID)
                    or not silo_topic_is(&self.table, q, r + m.topic_at, m.topic_length)):
                return MESSAGE_ILLEGAL
            if self.append_crc and not silo_has_crc_property(&m):
                return MESSAGE_ILLEGAL
            if silo_may_name_light(r + m.properties_at, m.properties_length):
                self.names_light = self.light
                if not silo_lights_are_good(&self.table, session, &m, q, self.light):
                    return MESSAGE_ILLEGAL
            left -= m.total
            r += m.total
        return PUT_OK if left == 0 and crc == frame.crc else MESSAGE_ILLEGAL

    cdef void finish(self, uint8_t *r, const silo_frame *frame, uint8_t *q,
                     uint8_t *p) noexcept nogil:
        """Steps 2 and 3: offsets, times, next queue offset, result. Moves the cursor."""
        cdef uint64_t next = silo_load(q + QUEUE_NEXT), first = 0, i
        cdef silo_record m
        silo_mark_next(q, next, self.wrote)
        for i in range(<int>frame.count):
            silo_parse_record(r, frame.record_bytes, &m)
            silo_put64(r + RECORD_QUEUE_OFFSET, next if silo_is_queued(&m) else 0)
            first = next if silo_is_queued(&m) and i == 0 else first
            next += silo_is_queued(&m)
            silo_put64(r + RECORD_PHYSICAL_OFFSET, self.cursor)
            if self.names_light:
                silo_number_lights(&self.table, &m, self.wrote)
            self.stamp(r, &m)
            self.cursor += m.total
            r += m.total
        SILO_FAULT("append:patched")
        silo_store(q + QUEUE_NEXT, next)
        SILO_FAULT("append:counted")
        silo_accept(p, self.cursor - frame.record_bytes, first, self.now_ms)
        self.records += frame.count
        silo_note_put(&self.puts, self.metrics, frame.sent_us, frame.record_bytes)

    cdef void stamp(self, uint8_t *r, const silo_record *m) noexcept nogil:
        """Writes store time and store host, then the record's checksum: all else is final now."""
        cdef uint32_t crc
        silo_put64(r + m.time_at, self.now_ms)
        memcpy(<uint8_t *>silo_store_host(m), self.store_host, self.store_host_length)
        if self.append_crc:
            crc = silo_crc32(0, r, m.total - CRC_PROPERTY_SIZE) & 0x7FFFFFFF
            silo_put_crc_digits(r + m.total - 11, crc)

    cdef void publish(self) noexcept nogil:
        """Steps 4 and 5: publishes `wrote` and the tails, then wakes producers and followers."""
        cdef int i
        cdef silo_ring *ring
        SILO_FAULT("append:results")
        if self.cursor != self.wrote:
            silo_write_staged(&self.staging, self.file, self.cursor - self.file_base)
            SILO_FAULT("append:written")
            silo_store(self.control + CONTROL_STORE_TIME_MS, self.now_ms)
            silo_store(self.control + CONTROL_RECORDS, self.records)
            self.wrote = self.cursor
            silo_store(self.control + CONTROL_WROTE, self.wrote)  # SYNC: wrote publish
        SILO_FAULT("append:wrote")
        for i in range(self.rings.count):
            ring = self.rings.used[i]
            if ring.tail != ring.published:
                silo_store(ring.base + RING_TAIL, ring.tail)  # SYNC: ring-tail publish
                SILO_FAULT("append:tail")
        silo_fence()
        for i in range(self.rings.count):
            ring = self.rings.used[i]
            if ring.tail != ring.published:
                ring.published = ring.tail
                if silo_load(ring.base + RING_PRODUCER_ASLEEP):
                    silo_futex_wake(ring.base + RING_TAIL, INT_MAX)
                if ring.bell.page != NULL:
                    silo_ring_bell(&ring.bell, BELL_ANSWERS)
        if silo_load(self.control + CONTROL_FLUSH_ASLEEP) or (
                self.sleeper and silo_load(self.control + self.sleeper)):
            silo_futex_wake(self.control + CONTROL_WROTE, INT_MAX)
        silo_count_puts(&self.puts, self.metrics)

    cdef int end_file(self) noexcept nogil:
        """Fills the file with an end-of-file record and publishes its end."""
        cdef uint64_t left
        if self.file != NULL and self.cursor < self.file_base + self.file_size:
            left = self.file_base + self.file_size - self.cursor
            silo_put_end_of_file(self.file + (self.cursor - self.file_base), <uint32_t>left)
            self.staging.mapped = True
            SILO_FAULT("append:blank")
            self.cursor += left
            self.publish()
        return R_ROLL
