# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The producer's side of a session's ring: room, publishing, waiting, and the open futures.

Every method holds the interpreter's lock except while it waits, so threads may share a producer:
what is reserved is written and published before another thread can come in between.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from silomq.client.producing._future cimport DURABLE, F_APPENDED, F_DONE, F_FAILED, MEMORY
from silomq.client.producing._future cimport run_callbacks

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from ..errors import SendTimeout
from .refusals import refusal

cdef uint64_t ONE = 1
# A sync is waited for awake, but offering the core: flush wakes faster than we would.
cdef int64_t SYNC_SPIN_NS = 200000


cdef class RingProducer:
    """The ring's side of a producer. `config` is what the registry said (`client/session.py`)."""

    def __init__(self, config, *, double send_timeout_s):
        self.routes = {}
        self.send_timeout_s = send_timeout_s
        self.encoder = Encoder(config)
        self.configure(config)
        self.closed = None

    def configure(self, config):
        """Takes over what may differ between two runs of the store."""
        self.encoder.configure(config)
        self.level = config.level
        self.spin_ns = config.producer_spin_us * 1000
        self.sync_timeout_ns = config.sync_flush_timeout_ms * 1000000

    def bind(self, unsigned char[::1] ring not None, uint64_t capacity,
             const unsigned char[::1] control not None, int bell):
        """Starts a session: an empty ring, the store's control block, append's eventfd."""
        self.ring_view = ring
        self.control_view = control
        self.ring = &ring[0]
        self.control = &control[0]
        self.capacity = capacity
        self.largest = capacity / 2 / 64 * 64
        self.head = self.tail = self.at = 0
        self.bell = bell
        self.routes.clear()
        self.generation += 1

    # -- the ring

    cdef uint8_t *reserve(self, uint64_t length, double timeout_s) except NULL:
        """Room for a frame of `length` bytes that does not wrap. Waits while the ring is full.

        The lock is given up only inside `make_room`, after which everything is looked at again.
        """
        cdef int64_t deadline = 0
        cdef uint64_t rest, need
        cdef uint8_t *p
        if length > self.largest:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the message (or batch) needs {length} bytes of ring, this producer's ring of "
                f"{self.capacity} bytes takes {self.largest} at once: open it with a larger "
                "ring_size, or send less in one call",
            )
        while True:
            if self.closed is not None:
                raise self.closed
            if self.stalled:
                self.check_stalled()
            rest = self.capacity - self.at
            need = length if rest >= length else rest
            if self.capacity - (self.head - self.tail) < need:
                if deadline == 0:
                    deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
                self.make_room(need, deadline)
                continue
            p = self.ring + RING_DATA + self.at
            if rest >= length:
                return p
            memset(p, 0, FRAME_HEADER)
            (<silo_frame *>p).length = <uint32_t>rest
            (<silo_frame *>p).kind = KIND_PAD
            self.head += rest
            self.at = 0

    cdef int make_room(self, uint64_t need, int64_t deadline) except -1:
        """Takes out results; if that does not free `need` bytes, waits once for more."""
        self.reap()
        if self.capacity - (self.head - self.tail) >= need:
            return 0
        if silo_monotonic_ns() >= deadline:
            raise SendTimeout(
                f"the ring is full: {self.head - self.tail} bytes wait for the store, which takes "
                "messages more slowly than this producer sends them")
        silo_store(self.ring + RING_HEAD, self.head)  # a pad may not have been published yet
        self.ring_bell()
        return self.wait_change(self.ring + RING_TAIL, self.tail, 0.05)

    cdef void publish(self, uint8_t *frame, uint64_t length) noexcept:
        """Makes the sealed frame append's business, and rings the bell if append sleeps."""
        cdef silo_result *r = <silo_result *>(frame + FRAME_RESULT)
        r.status = r.physical_offset = r.queue_offset = r.store_timestamp = -1
        self.head += length
        self.at += length
        if self.at == self.capacity:
            self.at = 0
        silo_store(self.ring + RING_HEAD, self.head)  # SYNC: ring-head publish
        silo_fence()
        if silo_load(self.control + CONTROL_APPEND_ASLEEP):  # SYNC: append-asleep observe
            write(self.bell, &ONE, 8)

    def look(self):
        """Resolves what is done."""
        self.reap()

    def expect_callback(self):
        """One more future has callbacks."""
        self.waiting += 1

    def ring_bell(self):
        """Wakes append, whether it sleeps or not."""
        write(self.bell, &ONE, 8)

    cdef void seal(self, uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait) noexcept:
        """The header of a frame whose records are written; its CRC-32C leaves out the bodies."""
        cdef silo_frame *f = <silo_frame *>frame
        cdef uint8_t *r = frame + FRAME_HEADER
        cdef uint32_t crc, i, left = record_bytes
        cdef silo_record m
        f.length = <uint32_t>length
        f.kind = KIND_RECORDS
        f.record_bytes = record_bytes
        f.count = count
        f.queue_slot = slot
        f.flags = wait
        f.reserved = 0
        crc = silo_crc32c(0, frame + FRAME_CHECKED, FRAME_RESULT - FRAME_CHECKED)
        for i in range(count):
            silo_parse_record(r, left, &m)
            crc = silo_crc32c(crc, r, m.body_at)
            crc = silo_crc32c(
                crc, r + m.body_at + m.body_length, m.total - m.body_at - m.body_length)
            r += m.total
            left -= m.total
        f.crc = crc

    # -- results

    cdef SendFuture promise(self, Route route, uint32_t queue_id, uint64_t length,
                            uint32_t record_bytes, uint32_t count, bint wait_store):
        """A future for the frame that is about to be written at the head."""
        cdef SendFuture future = SendFuture.__new__(SendFuture)
        future.producer = self
        future.at = self.at
        future.end = self.head + length
        future.topic = route.topic
        future.queue_id = queue_id
        future.count = count
        future.record_bytes = record_bytes
        future.level = self.level if wait_store else self.level & MEMORY
        future.store_host = self.encoder.store_host_bytes
        future.key_prefix = self.encoder.key_prefix
        future.key_time = self.encoder.key_time
        future.key_counter = self.encoder.key_counter
        future.key_wrap = self.encoder.key_wrap
        if self.last is None:
            self.first = future
        else:
            self.last.next = future
        self.last = future
        return future

    cdef int reap(self) except -1:
        """Takes the results of answered frames out of the ring and resolves what is done."""
        cdef uint64_t flushed, tail = silo_load(self.ring + RING_TAIL)  # SYNC: ring-tail observe
        cdef SendFuture future
        cdef list ready = None
        cdef int64_t now
        while self.first is not None and self.first.end <= tail:
            future = self.first
            self.first = future.next
            if self.first is None:
                self.last = None
            future.next = None
            memcpy(&future.outcome, self.ring + RING_DATA + future.at + FRAME_RESULT,
                   sizeof(silo_result))
            if future.outcome.status != PUT_OK:
                self.routes.clear()  # what was granted may have been taken back: ask again
                future.error = refusal(future.outcome.status, self.control_view)
                ready = self.finish(future, F_FAILED, ready)
            elif future.level == DURABLE:
                future.state = F_APPENDED
                future.durable_end = future.outcome.physical_offset + future.record_bytes
                future.deadline = silo_monotonic_ns() + self.sync_timeout_ns
                if self.last_durable is None:
                    self.first_durable = future
                else:
                    self.last_durable.next = future
                self.last_durable = future
            else:
                ready = self.finish(future, F_DONE, ready)
        self.tail = tail
        if self.first_durable is not None:
            flushed = silo_load(self.control + CONTROL_FLUSHED)  # SYNC: flushed observe
            now = silo_monotonic_ns()
            while self.first_durable is not None:
                future = self.first_durable
                if future.durable_end > flushed:
                    if now < future.deadline:
                        break
                    future.outcome.status = FLUSH_DISK_TIMEOUT
                self.first_durable = future.next
                if self.first_durable is None:
                    self.last_durable = None
                future.next = None
                ready = self.finish(future, F_DONE, ready)
        if ready is not None:
            for future, callbacks in ready:
                run_callbacks(future, callbacks)
        return 0

    cdef list finish(self, SendFuture future, int state, list ready):
        future.state = state
        if future.callbacks is not None:
            if ready is None:
                ready = []
            ready.append((future, future.callbacks))
            future.callbacks = None
            self.waiting -= 1
        return ready

    def wait_for(self, SendFuture future, double timeout_s):
        """Waits until the future is done. Raises SendTimeout, or what closed the producer."""
        cdef int64_t deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef uint64_t flushed
        cdef int64_t left
        while True:
            flushed = silo_load(self.control + CONTROL_FLUSHED)
            self.reap()
            if future.state >= F_DONE:
                return
            left = deadline - silo_monotonic_ns()
            if left <= 0:
                known = ("appended, not yet durable" if future.state == F_APPENDED
                         else "not yet appended")
                raise SendTimeout(f"no answer for {timeout_s:g} s; the message may still be "
                                  f"stored: state {known}")
            if future.state == F_APPENDED:
                self.wait_change(
                    self.control + CONTROL_FLUSHED, flushed, min(left * 1e-9, 0.05), False)
            else:
                self.wait_change(self.ring + RING_TAIL, self.tail, min(left * 1e-9, 0.05))

    cdef int wait_change(self, const uint8_t *word, uint64_t seen, double timeout_s,
                         bint briefly=True) except -1:
        """Without the interpreter's lock: spins, then sleeps, until `word` is no longer `seen`."""
        cdef int64_t start, waited = 0, limit = <int64_t>(timeout_s * 1e9)
        cdef uint64_t *asleep = <uint64_t *>(self.ring + RING_PRODUCER_ASLEEP)
        cdef object ring = self.ring_view, control = self.control_view  # alive without the lock
        cdef bint changed = False
        with nogil:
            start = silo_monotonic_ns()
            while not changed and waited < (self.spin_ns if briefly else SYNC_SPIN_NS):
                changed = silo_load(word) != seen
                silo_relax(waited)
                waited = silo_monotonic_ns() - start
            if not changed:
                __atomic_fetch_add(asleep, 1, __ATOMIC_SEQ_CST)
                if silo_load(word) == seen:
                    silo_futex_wait(word, seen, limit)
                changed = silo_load(word) != seen
                __atomic_fetch_add(asleep, <uint64_t>-1, __ATOMIC_SEQ_CST)
        if not changed:
            self.check_alive()
        return 0

    def progress(self, double timeout_s):
        """For the thread that serves callbacks: resolves what is done, else waits for more."""
        cdef uint64_t flushed = silo_load(self.control + CONTROL_FLUSHED)
        self.reap()
        if self.first_durable is not None:
            self.wait_change(self.control + CONTROL_FLUSHED, flushed, timeout_s, False)
        elif self.first is not None:
            self.wait_change(self.ring + RING_TAIL, self.tail, timeout_s)
        self.reap()

    @property
    def in_flight(self):
        """Bytes of the ring that the store has not answered yet."""
        self.reap()
        return self.head - self.tail

    @property
    def rejected(self):
        """Frames of this session that the store refused, oneway messages among them."""
        return silo_load(self.ring + RING_REJECTED)

    @property
    def closed_by_store(self):
        """Why the store reads this ring no more (a RingClosed), 0 while it does."""
        return silo_load(self.ring + RING_CLOSED)

    def fail_pending(self, error):
        """Resolves every open future with `error`."""
        cdef SendFuture future
        cdef list ready = None
        for future in self.open_futures():
            future.error = error
            future.next = None
            ready = self.finish(future, F_FAILED, ready)
        self.first = self.last = self.first_durable = self.last_durable = None
        if ready is not None:
            for future, callbacks in ready:
                run_callbacks(future, callbacks)

    def shut(self, error):
        """No more calls: they raise `error`, as every open future does."""
        self.closed = error
        self.fail_pending(error)

    def forbid(self, error):
        """As `shut`, in a forked child: its parent's futures are not touched."""
        self.closed = error

    def wait_answered(self, double timeout_s):
        """Waits until all that was published is answered, under SYNC_FLUSH durable; SendTimeout."""
        cdef int64_t deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef uint64_t target = self.head, flushed
        while True:
            flushed = silo_load(self.control + CONTROL_FLUSHED)
            self.reap()
            if self.tail >= target and self.first_durable is None:
                return
            if self.closed is not None:
                raise self.closed
            if silo_monotonic_ns() >= deadline:
                raise SendTimeout(
                    f"{target - self.tail} bytes were not answered within {timeout_s:g} s")
            if self.tail < target:
                self.wait_change(self.ring + RING_TAIL, self.tail, 0.05)
            else:
                self.wait_change(self.control + CONTROL_FLUSHED, flushed, 0.05, False)

    def open_futures(self):
        """The futures that are not done, in the order of sending."""
        cdef SendFuture future
        found = []
        for future in (self.first_durable, self.first):
            while future is not None:
                found.append(future)
                future = future.next
        return found

    def unanswered(self):
        """The published frames without an answer, in order: (records, count, future or None)."""
        cdef uint64_t p = silo_load(self.ring + RING_TAIL), at = p % self.capacity
        cdef SendFuture future = self.first
        cdef silo_frame *f
        found = []
        while p < self.head:
            f = <silo_frame *>(self.ring + RING_DATA + at)
            if f.kind == KIND_RECORDS:
                records = (<const char *>f + FRAME_HEADER)[:f.record_bytes]
                mine = future if future is not None and future.end == p + f.length else None
                if mine is not None:
                    future = future.next
                found.append((records, f.count, mine))
            p += f.length
            at = (at + f.length) % self.capacity
        return found

    def resubmit(self, bytes records, uint32_t count, uint32_t slot, SendFuture future,
                 double timeout_s):
        """Publishes records that an earlier session left unanswered; their future goes on here."""
        cdef uint64_t length = (FRAME_HEADER + <uint64_t>len(records) + 63) & ~<uint64_t>63
        cdef uint8_t *frame = self.reserve(length, timeout_s)
        memcpy(frame + FRAME_HEADER, <const char *>records, len(records))
        if future is not None:
            future.at = self.at
            future.end = self.head + length
            future.next = None
            if self.last is None:
                self.first = future
            else:
                self.last.next = future
            self.last = future
        self.seal(frame, length, <uint32_t>len(records), count, slot, True)
        self.publish(frame, length)

    def forget_pending(self):
        """Drops the lists of open futures: `resubmit` takes them up again."""
        self.first = self.last = self.first_durable = self.last_durable = None
