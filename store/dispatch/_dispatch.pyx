# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The dispatch kernel: from the commit log into consume queues and index.

It takes records in groups of 32. First it parses each record and hashes its keys. Then it finds the
queues of all records, in steps that prefetch the memory of the next step. Last it writes the group
in order: for each record the queue entry, the index entries, and the queue's `max_offset`.
`publish` publishes the progress. The package's docstring (`__init__.py`) says why a kill between
any two of these steps loses and doubles no message.

The kernel opens no files. `run` returns a reason, CAUGHT_UP or another, and its caller acts on it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

CAUGHT_UP, SLICE, NEXT_FILE, NEED_WINDOW, INDEX_FULL, UNKNOWN_QUEUE, BAD_RECORD = range(7)
UNKNOWN_LIGHT = 7

cdef uint64_t NOWHERE = 0xFFFFFFFFFFFFFFFFu


cdef class Dispatcher:
    """The kernel's state for one store. `control` and `table` are its writable shared memory.

    `delays` are the delay levels' times in ms, level 1 first, at most 64. `state` is the progress
    from which dispatch continues (the fields of the layout `progress`). Raises MemoryError.
    """

    def __cinit__(self, unsigned char[::1] control, unsigned char[::1] table, int max_queues,
                  list delays, dict state):
        cdef int i
        self.control_view = control
        self.table_view = table
        self.control = &control[0]
        silo_table_open(&self.table, &table[0])
        self.windows = <silo_window *>calloc(max_queues, sizeof(silo_window))
        self.hashes = <uint32_t *>malloc(GROUP * RECORD_KEYS * sizeof(uint32_t))
        if self.windows == NULL or self.hashes == NULL:
            raise MemoryError
        self.max_queues = max_queues
        self.unqueued = NOWHERE
        self.window_views = {}
        self.delay_levels = min(len(delays), DELAY_LEVELS)
        for i in range(self.delay_levels):
            self.delays[i] = delays[i]
        self.state = state

    def __dealloc__(self):
        free(self.windows)
        free(self.hashes)

    @property
    def state(self):
        """The present progress, which may not be published yet."""
        return self.state

    def set_log(self, const unsigned char[::1] memory not None, uint64_t base):
        """Sets the commit-log file to read: mapped at `memory`, from log offset `base` on."""
        self.log_view = memory
        self.log = <uint8_t *>&memory[0]
        self.log_base = base
        self.log_size = memory.shape[0]

    def set_window(self, long slot, unsigned char[::1] memory not None, uint64_t first):
        """Sets the window of the queue in `slot`: `memory` holds its entries from queue offset
        `first` on. A last part of an entry is ignored."""
        if not 0 <= slot < self.max_queues:
            raise IndexError(slot)
        self.window_views[slot] = memory
        self.windows[slot].base = &memory[0]
        self.windows[slot].first = first
        self.windows[slot].end = first + memory.shape[0] / ENTRY_SIZE

    def drop_window(self, long slot):
        self.windows[slot].base = NULL
        self.windows[slot].end = 0
        del self.window_views[slot]

    def set_index(self, unsigned char[::1] memory, uint64_t name, uint64_t slots, uint64_t entries,
                  bint fresh):
        """Sets the index file to which keys are added, mapped at `memory` (None: no index). It has
        no room for them before `set_index_room`.

        A fresh file begins at the end time and offset of the file before, as in RocketMQ: the
        seconds of its first entry count from there.
        """
        if memory is None:
            self.index_view = None
            self.index = NULL
            return
        self.index_view = memory
        self.index = &memory[0]
        self.hash_slots = slots
        self.index_entries = entries
        self.index_room = 0
        self.state.index_name = name
        if fresh:
            self.state.index_count = 1
            self.state.index_slots = 0
            self.state.begin_time = self.state.end_time
            self.state.begin_offset = self.state.end_offset
        self.write_index_header()

    def set_index_room(self, uint64_t room):
        """Allows entries below number `room`, whose disk space is taken."""
        self.index_room = min(room, self.index_entries)

    cdef void write_index_header(self) noexcept nogil:
        """Writes the counts in the progress to the index file's header."""
        silo_index_header(self.index, &self.state)

    def undo_index(self):
        """Undoes the index entries at or above the published count, and returns how many there
        were."""
        cdef uint64_t undone = silo_index_undo(self.index, self.hash_slots, self.index_entries,
                                               self.state.index_count)
        self.write_index_header()
        return undone

    def relink_index(self):
        """Computes all slots anew from the published entries, which were durable before the power
        cut. Returns how many slots were wrong. Raises MemoryError."""
        cdef uint64_t changed
        cdef uint32_t *heads = <uint32_t *>calloc(self.hash_slots, sizeof(uint32_t))
        if heads == NULL:
            raise MemoryError
        with nogil:
            changed = silo_index_relink(self.index, self.hash_slots, self.state.index_count, heads)
        free(heads)
        return changed

    def set_bells(self, Bells bells not None):
        """Sets the session bells that are rung for arrivals. None are at first."""
        self.bells_view = bells
        self.bells = &bells.all

    def pass_queue(self):
        """Makes the record at the present position get no queue entry; its keys are indexed."""
        self.unqueued = self.state.dispatched

    @property
    def unknown_light(self):
        """The light queue for which UNKNOWN_LIGHT was returned: (the topic's bytes, queue id)."""
        cdef silo_text name = self.lights.name
        return (<const char *>name.at)[:name.length], self.lights.queue_id

    def pass_light(self):
        """Makes the record at the present position get no entry in that light queue."""
        self.lights.done += 1

    def run(self, size_t limit_word, int64_t slice_ns):
        """Dispatches up to the value of the control word at position `limit_word`, for about
        `slice_ns` at most. Returns the reason why it ended."""
        cdef int reason
        with nogil:
            reason = self.work(limit_word, slice_ns)
        return reason

    cdef int work(self, size_t limit_word, int64_t slice_ns) noexcept nogil:
        cdef int64_t start = silo_monotonic_ns()
        cdef uint64_t limit
        cdef int found, wrote, groups = 0
        while True:
            limit = silo_load(self.control + limit_word)  # SYNC: wrote observe
            if self.state.dispatched >= limit:
                self.publish()
                return R_CAUGHT_UP
            if self.state.dispatched >= self.log_base + self.log_size:
                self.publish()
                return R_NEXT_FILE
            found = self.gather(limit)
            wrote = self.write()
            if wrote != R_CAUGHT_UP:
                if wrote == R_INDEX_FULL:
                    # The header of the full file is final. `state` goes over to the next file.
                    self.write_index_header()
                self.publish()
                return wrote
            if found != R_CAUGHT_UP:
                # The group before it is written, so the obstacle is now at `dispatched`.
                if found == R_NEXT_FILE:
                    self.state.dispatched = self.log_base + self.log_size
                self.publish()
                return found
            groups += 1
            if groups % 64 == 0:
                self.publish()
                if silo_monotonic_ns() - start >= slice_ns:
                    return R_SLICE

    cdef int gather(self, uint64_t limit) noexcept nogil:
        """Parses up to GROUP records from the present position on."""
        cdef uint64_t offset = self.state.dispatched, end = self.log_base + self.log_size
        cdef uint32_t keys = 0
        cdef silo_record m
        cdef const uint8_t *next
        cdef int found
        if limit < end:
            end = limit
        self.grouped = 0
        while self.grouped < GROUP and offset < end:
            found = silo_parse_record(self.log + (offset - self.log_base), end - offset, &m)
            if found == RECORD_END_OF_FILE:
                return self.resolve(R_NEXT_FILE if self.grouped == 0 else R_CAUGHT_UP)
            if found != RECORD_OK:
                return self.resolve(R_BAD_RECORD)
            self.look(&m, offset, &self.group[self.grouped], &keys)
            self.grouped += 1
            offset += m.total
            # Neighbouring records mostly have the same size: prefetch the head and the tail of the
            # record four further on.
            if offset + 5 * m.total < end:
                next = self.log + (offset - self.log_base) + 3 * <uint64_t>m.total
                __builtin_prefetch(next, 0, 3)
                __builtin_prefetch(next + 64, 0, 3)
                __builtin_prefetch(next + m.topic_at, 0, 3)
                __builtin_prefetch(next + m.topic_at + 64, 0, 3)
        return self.resolve(R_CAUGHT_UP)

    cdef void look(self, const silo_record *m, uint64_t offset, Pending *one,
                   uint32_t *keys) noexcept nogil:
        """Collects what dispatch needs of one record, and prefetches its queue's bucket."""
        cdef silo_properties found
        cdef uint32_t topic_hash
        silo_find_properties(m.bytes + m.properties_at, m.properties_length, &found)
        one.offset = offset
        one.size = m.total
        one.store_time = silo_be64(m.bytes + m.time_at)
        one.slot = -1
        one.queued = silo_is_queued(m) and offset != self.unqueued
        if one.queued:
            one.queue_offset = silo_be64(m.bytes + RECORD_QUEUE_OFFSET)
            one.queue_id = silo_be32(m.bytes + RECORD_QUEUE_ID)
            one.topic = m.bytes + m.topic_at
            one.topic_length = m.topic_length
            one.hash = silo_queue_hash(one.topic, one.topic_length, one.queue_id)
            silo_load_bucket(&self.table, one.hash)
            one.tags_code = silo_tags_code(m, &found, self.delays, self.delay_levels)
        one.light = found.light_offsets.length != 0 and silo_is_queued(m)
        one.key_from = keys[0]
        if self.index != NULL and m.flags & FLAG_TRANSACTION != FLAG_ROLLBACK:
            topic_hash = silo_java_hash(0, m.bytes + m.topic_at, m.topic_length)
            self.add_keys(&found, topic_hash, keys)
        one.key_to = keys[0]

    cdef int resolve(self, int found) noexcept nogil:
        """Finds the queues of the group's records. A record of an unknown queue ends the group, and
        is returned instead of `found`, whose record lies behind."""
        cdef int i
        cdef Pending *one
        cdef silo_window *window
        for i in range(self.grouped):
            if self.group[i].queued:
                silo_load_queue(&self.table, self.group[i].hash)
        for i in range(self.grouped):
            one = &self.group[i]
            if not one.queued:
                continue
            one.slot = silo_find_hashed(&self.table, one.hash, one.topic, one.topic_length,
                                        one.queue_id)
            if one.slot < 0:
                self.grouped = i
                found = R_UNKNOWN_QUEUE
                break
            __builtin_prefetch(&self.windows[one.slot], 0, 3)
        for i in range(self.grouped):
            one = &self.group[i]
            if one.slot >= 0 and one.offset < silo_load(
                    silo_queue(&self.table, <uint32_t>one.slot) + QUEUE_SINCE):
                one.slot = -1  # the record belongs to a deleted topic
            if one.slot >= 0:
                window = &self.windows[one.slot]
                if window.first <= one.queue_offset < window.end:
                    __builtin_prefetch(
                        window.base + ENTRY_SIZE * (one.queue_offset - window.first), 1, 3)
        return found

    cdef void add_keys(self, const silo_properties *found, uint32_t topic_hash,
                       uint32_t *count) noexcept nogil:
        """Adds the hash of each key of a record."""
        cdef silo_keys keys
        cdef silo_text key
        silo_first_key(found, &keys)
        while silo_next_key(&keys, &key):
            self.add_key(silo_index_hash(topic_hash, key.at, key.length), count)

    cdef void add_key(self, uint32_t key_hash, uint32_t *count) noexcept nogil:
        self.hashes[count[0]] = key_hash
        count[0] += 1
        __builtin_prefetch(self.index + INDEX_HEADER + 4 * (key_hash % self.hash_slots), 1, 3)

    cdef int write(self) noexcept nogil:
        """Writes the group in order. If a record cannot be written, `dispatched` stays at that
        record."""
        cdef int i, reason
        cdef Pending *one
        cdef silo_window *window
        cdef uint8_t *entry
        cdef uint8_t *q
        for i in range(self.grouped):
            one = &self.group[i]
            if one.slot >= 0:
                window = &self.windows[one.slot]
                if one.queue_offset < window.first or one.queue_offset >= window.end:
                    self.need_slot = one.slot
                    self.need_offset = one.queue_offset
                    return R_NEED_WINDOW
                entry = window.base + ENTRY_SIZE * (one.queue_offset - window.first)
                silo_put_entry(entry, one.offset, one.size, <uint64_t>one.tags_code)
                SILO_FAULT("reput:queue")
            if one.light:
                reason = self.put_lights(one)
                if reason != R_CAUGHT_UP:
                    return reason
            if self.put_keys(one) != R_CAUGHT_UP:
                return R_INDEX_FULL
            if one.light:
                self.state.dispatch_count += self.lights.counted
                self.lights.done = self.lights.counted = 0
            if one.slot >= 0:
                q = silo_queue(&self.table, <uint32_t>one.slot) + QUEUE_MAX_OFFSET
                if silo_load(q) <= one.queue_offset:
                    silo_store(q, one.queue_offset + 1)  # SYNC: queue-max publish
                    SILO_FAULT("reput:max")
                self.note_arrival(one.slot)
                self.state.dispatch_count += 1
            self.state.dispatched += one.size
        return R_CAUGHT_UP

    cdef int put_lights(self, const Pending *one) noexcept nogil:
        """Gives a record its entries in light queues."""
        cdef int why = LIGHT_ENTRY
        while why == LIGHT_ENTRY:
            why = silo_next_light_entry(&self.table, self.windows, &self.lights,
                                        self.log + (one.offset - self.log_base), one.offset,
                                        one.size, one.slot, <uint64_t>one.tags_code)
            if why == LIGHT_ENTRY:
                self.note_arrival(self.lights.slot)
        self.need_slot = self.lights.slot
        self.need_offset = self.lights.need
        if why == LIGHT_NEED_WINDOW:
            return R_NEED_WINDOW
        return R_UNKNOWN_LIGHT if why == LIGHT_UNKNOWN else R_CAUGHT_UP

    cdef void note_arrival(self, uint64_t slot) noexcept nogil:
        self.arrivals[(slot % ARRIVAL_WORDS) / 64] |= <uint64_t>1 << (slot % 64)

    cdef int put_keys(self, const Pending *one) noexcept nogil:
        """Adds the record's keys to the index, from `keys_done` on. If the file fills up in
        between, the rest go into the next one."""
        cdef uint32_t k
        for k in range(one.key_from + self.keys_done, one.key_to):
            if self.state.index_count >= self.index_room:
                return R_INDEX_FULL
            silo_index_put(self.index, self.hash_slots, &self.state, self.hashes[k], one.offset,
                           one.store_time)
            self.keys_done += 1
        self.keys_done = 0
        return R_CAUGHT_UP

    cdef void publish(self) noexcept nogil:
        """Publishes the progress, then wakes the readers of every queue that grew."""
        cdef uint64_t generation = silo_load(self.control + CONTROL_PROGRESS_GENERATION) + 1
        cdef uint8_t *slot = self.control + (
            CONTROL_PROGRESS_1 if generation % 2 else CONTROL_PROGRESS_0)
        cdef uint64_t *words = <uint64_t *>&self.state
        cdef uint64_t moved
        cdef uint8_t *word
        cdef int i
        if self.state.dispatched == silo_load(self.control + CONTROL_DISPATCHED):
            return
        # With `keys_done` a full index file has some keys of a record, and the next file gets the
        # rest. `run` can continue between them, a successor cannot. So nothing is published, and
        # a successor undoes the unpublished entries and starts before the record.
        if self.keys_done == 0:
            for i in range(<int>(sizeof(silo_progress) / 8)):
                silo_store(slot + 8 * i, words[i])
            SILO_FAULT("reput:progress")
            # SYNC: progress publish
            silo_store(self.control + CONTROL_PROGRESS_GENERATION, generation)
            SILO_FAULT("reput:generation")
            if self.index != NULL:
                self.write_index_header()  # first: who waited for `dispatched` may read the file
            silo_store(self.control + CONTROL_DISPATCH_COUNT, self.state.dispatch_count)
            silo_store(self.control + CONTROL_DISPATCHED, self.state.dispatched)
            SILO_FAULT("reput:dispatched")
            silo_futex_wake(self.control + CONTROL_DISPATCHED, INT_MAX)
        SILO_FAULT("reput:published")
        for i in range(16):
            moved = self.arrivals[i]
            while moved:
                word = self.control + CONTROL_ARRIVAL + 8 * (64 * i + __builtin_ctzll(moved))
                moved &= moved - 1
                silo_store(word, silo_load(word) + 1)  # SYNC: arrival publish
        silo_fence()
        self.woken += silo_wake_readers(self.control, self.arrivals, self.bells)
