# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The producer's side of a session's ring: space, frames, results, and waiting for them.

The layout is that of `shm/ring.py`. The ring decides nothing: it reports that there is no space or
no progress, or that the store closed it. Its session (`send_session.py`) decides what follows.

Every method holds the interpreter's lock except while it waits. So no other thread runs between the
reservation of a frame and its publication.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef uint64_t ONE = 1
# How long a wait for a sync spins: flush ends sooner than this thread could be woken up. On fewer
# cores than sender, append, flush and reput, the spin would only keep flush from its core.
cdef int64_t SYNC_SPIN_NS = 200000 if len(os.sched_getaffinity(0)) >= 4 else 0
# A wait without any change ends after this time, so that the caller checks on the store.
cdef int64_t NO_PROGRESS_NS = 50000000


cdef class Pending:
    """A published frame whose answer is awaited. Users see it as a `SendFuture`."""


cdef class Ring:
    """One producer's ring. `bind` starts it, and restarts it for each further session.

    `head` and `tail` are the ring's counters: bytes that were published, and bytes that were
    answered when this process last looked. `generation` counts the sessions. `holds` is a set of
    bits that the session uses: while any is set, the session must be asked before a frame is
    written.
    """

    def bind(self, unsigned char[::1] ring not None, uint64_t capacity,
             const unsigned char[::1] control not None, int bell, *, int level,
             int64_t spin_ns, int64_t sync_timeout_ns):
        """Starts a session with an empty ring.

        `ring` is its memory, of which `capacity` bytes are for frames. `control` is the store's
        control block, `bell` is append's eventfd, `level` is the store's AckLevel. A wait spins for
        `spin_ns` before it sleeps. After `sync_timeout_ns` a frame no longer waits for its sync.

        Frames that already wait for a sync keep waiting, because their offsets in the log stay the
        same. Frames that wait for append must have been taken by `take_unanswered`.
        """
        self.ring_view = ring
        self.control_view = control
        self.ring = &ring[0]
        self.control = &control[0]
        self.capacity = capacity
        self.largest = capacity / 2 / 64 * 64
        self.head = self.tail = self.at = 0
        self.bell = bell
        self.level = level
        self.own_bell = None
        self.armed = 0
        self.spin_ns = spin_ns
        self.sync_timeout_ns = sync_timeout_ns
        self.generation += 1

    def hold(self, uint32_t bits):
        """Sets bits of `holds`."""
        self.holds |= bits

    def release(self, uint32_t bits):
        """Clears bits of `holds`."""
        self.holds &= ~bits

    # -- frames

    def fits(self, uint64_t record_bytes):
        """Whether a frame with `record_bytes` bytes of records fits into an empty ring at any
        position.
        """
        return frame_length(record_bytes) <= self.largest

    cdef uint8_t *reserve(self, uint64_t length) noexcept:
        """Space for a frame of `length` bytes that does not wrap; NULL while there is none.

        A pad frame fills the end of the ring. It is published with the frame behind it, or by
        `wait_room`.
        """
        cdef uint64_t rest = self.capacity - self.at
        cdef uint8_t *p
        if rest < length:
            if self.capacity - (self.head - self.tail) < rest:
                return NULL
            p = self.ring + RING_DATA + self.at
            memset(p, 0, FRAME_HEADER)
            (<silo_frame *>p).length = <uint32_t>rest
            (<silo_frame *>p).kind = KIND_PAD
            self.head += rest
            self.at = 0
        if self.capacity - (self.head - self.tail) < length:
            return NULL
        return self.ring + RING_DATA + self.at

    cdef void expect(self, Pending pending, uint64_t length, uint32_t record_bytes) noexcept:
        """Registers `pending` for the answer to the reserved frame of `length` bytes."""
        pending.at = self.at
        pending.end = self.head + length
        pending.record_bytes = record_bytes
        pending.next = None
        if self.last is None:
            self.first = pending
        else:
            self.last.next = pending
        self.last = pending

    cdef void seal(self, uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait) noexcept:
        """Writes the header of a frame whose records are written."""
        silo_seal(frame, length, record_bytes, count, slot, wait, self.sent_us)

    cdef void publish(self, uint8_t *frame, uint64_t length) noexcept:
        """Publishes the sealed frame to append, and rings the bell if append sleeps."""
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

    def put(self, bytes records, uint32_t count, uint32_t slot, Pending pending=None, *,
            bint wait=False):
        """Publishes `count` encoded records for the queue in `slot`. Returns False while there is
        no space.

        `pending`, if given, gets the answer. `wait` is the frame's flag of that name.
        """
        cdef uint32_t record_bytes = <uint32_t>len(records)
        cdef uint64_t length = frame_length(record_bytes)
        cdef uint8_t *frame = NULL
        if length <= self.largest:
            frame = self.reserve(length)
        if frame == NULL:
            return False
        memcpy(frame + FRAME_HEADER, <const char *>records, record_bytes)
        if pending is not None and pending.state < P_DONE:
            self.expect(pending, length, record_bytes)
        self.sent_us = <uint32_t>silo_realtime_us()
        self.seal(frame, length, record_bytes, count, slot, wait)
        self.publish(frame, length)
        return True

    # -- results

    cdef int reap(self) except -1:
        """Takes the results of answered frames out of the ring, in the order of the frames."""
        cdef uint64_t tail = silo_load(self.ring + RING_TAIL)  # SYNC: ring-tail observe
        cdef Pending pending
        while self.first is not None and self.first.end <= tail:
            pending = self.first
            self.first = pending.next
            if self.first is None:
                self.last = None
            pending.next = None
            memcpy(&pending.outcome, self.ring + RING_DATA + pending.at + FRAME_RESULT,
                   sizeof(silo_result))
            if pending.outcome.status != PUT_OK:
                self.resolve(pending, P_FAILED)
            elif pending.needs_sync:
                pending.state = P_APPENDED
                pending.durable_end = pending.outcome.physical_offset + pending.record_bytes
                pending.deadline = silo_monotonic_ns() + self.sync_timeout_ns
                if self.last_unsynced is None:
                    self.first_unsynced = pending
                else:
                    self.last_unsynced.next = pending
                self.last_unsynced = pending
            else:
                self.resolve(pending, P_DONE)
        self.tail = tail
        if self.first_unsynced is not None:
            self.reap_synced()
        return 0

    cdef int reap_synced(self) except -1:
        """Resolves frames that `flushed` has passed, and frames whose wait for their sync has timed
        out.
        """
        cdef uint64_t flushed = silo_load(self.control + CONTROL_FLUSHED)  # SYNC: flushed observe
        cdef int64_t now = silo_monotonic_ns()
        cdef Pending pending
        while self.first_unsynced is not None:
            pending = self.first_unsynced
            if pending.durable_end > flushed:
                if now < pending.deadline:
                    break
                pending.outcome.status = FLUSH_DISK_TIMEOUT
            self.first_unsynced = pending.next
            if self.first_unsynced is None:
                self.last_unsynced = None
            pending.next = None
            self.resolve(pending, P_DONE)
        return 0

    cdef int resolve(self, Pending pending, int state) except -1:
        """Sets the final state. Appends `pending` to `told` if it is watched or has failed."""
        pending.state = state
        if pending.watched:
            pending.watched = False
            self.watched -= 1
        elif state != P_FAILED:
            return 0
        if self.told is None:
            self.told = []
        self.told.append(pending)
        return 0

    cdef int watch(self, Pending pending) except -1:
        """Has `pending` appended to `told` when it is resolved."""
        if not pending.watched:
            pending.watched = True
            self.watched += 1
        return 0

    def look(self):
        """Takes the results that have arrived."""
        self.reap()

    def take_told(self):
        """The Pendings resolved since the last call that were watched or have failed, in order."""
        cdef list told = self.told
        self.told = None
        return told or []

    def take_open(self):
        """All unresolved Pendings, in the order of sending. The ring forgets them."""
        cdef Pending pending
        cdef list found = []
        for pending in (self.first_unsynced, self.first):
            while pending is not None:
                found.append(pending)
                pending = pending.next
        self.first = self.last = self.first_unsynced = self.last_unsynced = None
        return found

    def take_unanswered(self):
        """The published frames that append has not answered, in order, each with its Pending:
        (records, count, Pending or None). The ring forgets these Pendings.
        """
        cdef uint64_t p, at
        cdef Pending pending
        cdef silo_frame *f
        cdef list found = []
        self.reap()
        p = self.tail
        at = p % self.capacity
        pending = self.first
        while p < self.head:
            f = <silo_frame *>(self.ring + RING_DATA + at)
            p += f.length
            at = (at + f.length) % self.capacity
            if f.kind == KIND_RECORDS:
                mine = pending if pending is not None and pending.end == p else None
                if mine is not None:
                    pending = pending.next
                found.append(((<const char *>f + FRAME_HEADER)[:f.record_bytes], f.count, mine))
        self.first = self.last = None
        return found

    # -- waiting

    cdef int wait_for(self, Pending pending, int64_t deadline) except -1:
        """Waits until `pending` is resolved: W_DONE, W_LATE or W_NO_PROGRESS."""
        cdef uint64_t flushed
        cdef int64_t left
        cdef bint changed = True
        while True:
            flushed = silo_load(self.control + CONTROL_FLUSHED)
            self.reap()
            if pending.state >= P_DONE:
                return W_DONE
            if not changed:
                return W_NO_PROGRESS
            left = deadline - silo_monotonic_ns()
            if left <= 0:
                return W_LATE
            if left > NO_PROGRESS_NS:
                left = NO_PROGRESS_NS
            if pending.state == P_APPENDED:
                changed = self.wait_change(
                    self.control + CONTROL_FLUSHED, flushed, left, SYNC_SPIN_NS)
            else:
                changed = self.wait_change(self.ring + RING_TAIL, self.tail, left, self.spin_ns)

    def wait_room(self):
        """Waits once for append to answer frames. Returns False if there was no progress."""
        silo_store(self.ring + RING_HEAD, self.head)  # a pad may not have been published yet
        write(self.bell, &ONE, 8)
        return self.wait_change(self.ring + RING_TAIL, self.tail, NO_PROGRESS_NS, self.spin_ns)

    def wait_progress(self):
        """Waits once for the next answer or sync that is awaited. Returns False if one is awaited
        and there was no progress.
        """
        cdef uint64_t flushed = silo_load(self.control + CONTROL_FLUSHED)
        self.reap()
        if self.first_unsynced is not None:
            return self.wait_change(
                self.control + CONTROL_FLUSHED, flushed, NO_PROGRESS_NS, SYNC_SPIN_NS)
        if self.tail < self.head:
            return self.wait_change(
                self.ring + RING_TAIL, self.tail, NO_PROGRESS_NS, self.spin_ns)
        return True

    cdef bint wait_change(self, const uint8_t *word, uint64_t seen, int64_t timeout_ns,
                          int64_t spin_ns):
        """Spins, then sleeps, until `word` is no longer `seen`. Returns whether it changed. Other
        threads may run meanwhile.
        """
        cdef int64_t start, now
        cdef uint64_t *asleep = <uint64_t *>(self.ring + RING_PRODUCER_ASLEEP)
        # Another thread may bind the ring again: these references keep the memory mapped.
        cdef object ring = self.ring_view, control = self.control_view
        cdef bint changed = silo_load(word) != seen
        cdef const uint8_t *crowded = self.control + CONTROL_CROWDED
        cdef silo_spin spin = self.spin  # a copy: other threads may wait at the same time
        with nogil:
            start = now = silo_monotonic_ns()
            while (not changed and now - start < spin_ns
                   and silo_spins_on(&spin, now, silo_load(crowded) != 0)):
                now = silo_spin_turn(&spin, start, now, silo_load(crowded) != 0)
                changed = silo_load(word) != seen
            if not changed:
                __atomic_fetch_add(asleep, 1, __ATOMIC_SEQ_CST)
                if silo_load(word) == seen:
                    silo_futex_wait(word, seen, timeout_ns)
                changed = silo_load(word) != seen
                __atomic_fetch_add(asleep, <uint64_t>-1, __ATOMIC_SEQ_CST)
        self.spin = spin
        return changed

    # -- sleeping on the session's own bell

    def use_bell(self, Bell bell not None):
        """Sets the session's own bell. `bind` takes it away."""
        self.own_bell = bell
        self.armed = 0

    def listen(self):
        """Arms the bell for what is awaited, and looks once more. Without a bell it only looks."""
        cdef int wanted
        self.reap()
        while self.own_bell is not None:
            wanted = BELL_ANSWERS | (0 if self.first_unsynced is None else BELL_FLUSHED)
            if wanted & ~self.armed == 0:
                return
            self.armed = wanted
            self.own_bell.arm(wanted)
            self.reap()

    def rest(self):
        """As `listen`, after the rings that have come were taken. False if the bell has hung up."""
        cdef bint rings = self.own_bell is None or self.own_bell.drain()
        self.armed = 0
        self.listen()
        return rings

    @property
    def patience_s(self):
        """Seconds until the next wait for a sync times out; infinite if nothing waits for one."""
        if self.first_unsynced is None:
            return float("inf")
        return max(0.0, (self.first_unsynced.deadline - silo_monotonic_ns()) / 1e9)

    # -- state

    @property
    def synced(self):
        """Whether no frame waits for a sync, as of the results taken so far."""
        return self.first_unsynced is None

    @property
    def rejected(self):
        """The number of frames of this session that the store refused, with or without a
        Pending.
        """
        return silo_load(self.ring + RING_REJECTED)

    @property
    def closed_by_store(self):
        """Why the store no longer reads this ring (a RingClosed); 0 while it does."""
        return silo_load(self.ring + RING_CLOSED)
