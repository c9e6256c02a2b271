# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The kernel of the log's check: confirms records that are good in every respect.

A record is good if its bytes are whole, its checksums hold, its queue entry is the right one, and
the index has each of its keys. `LogCheck.run` passes over such records and counts them. At any
other place it returns a reason, and Python finds out and says what is wrong there. So this module
knows no finding; `log.py` owns what is one, and calls `run` again behind that place.

The kernel opens no files: Python maps queue files (windows) and index files when `run` asks.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memset

#: Why `run` returned. LIMIT: the limit is reached. ODD: the place is not plainly good. The others
#: ask for what the next record needs: a queue's number, its window, the next index file, or all
#: addresses that the index has.
LIMIT, ODD, UNKNOWN_QUEUE, NEED_WINDOW, NEED_INDEX, NEED_KNOWN = range(6)

cdef uint32_t BLANK_SIZE = 0x7FFFFFFF
cdef class LogCheck:
    """The state of the checks of one process. `delays` has the delay levels' times in ms."""

    cdef Queue *queues
    cdef uint32_t *buckets
    cdef uint32_t mask
    cdef readonly uint32_t queue_count
    cdef list names, views
    cdef int64_t delays[LEVELS]
    cdef int levels
    cdef IndexRun runs[2]
    cdef list run_views
    cdef object known_view
    cdef const int64_t *known
    cdef int64_t known_count
    cdef int64_t wanted[3]
    # What the job says, see `begin`.
    cdef int64_t redispatched, first_dispatched, first_indexed
    cdef bint has_cursor, more_runs
    #: Whether findings of one kind are only counted.
    cdef public bint quiet
    #: Counts of the job: see `begin`.
    cdef readonly int64_t records, pending, before_queues, unnamed, oldest_ms, newest_ms
    cdef readonly int64_t last, first_time, last_time
    cdef readonly int times_seen
    # Why `run` returned: the queue, and the queue offset.
    cdef readonly int64_t need_queue, need_offset
    cdef readonly object need_topic

    def __cinit__(self, list delays):
        cdef int i
        self.levels = min(len(delays), LEVELS)
        for i in range(self.levels):
            self.delays[i] = delays[i]
        self.names, self.views = [], []
        self.run_views = [None, None]
        self.mask = 255
        self.buckets = <uint32_t *>calloc(self.mask + 1, sizeof(uint32_t))
        if self.buckets == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.buckets)
        free(self.queues)

    def begin(self, int64_t redispatched, int64_t first_dispatched, int64_t first_indexed,
              tuple times):
        """Begins a job: sets all counts to zero. Offsets are log addresses. Records from
        `redispatched` on may lack their entries; those below `first_dispatched` have none in a
        queue; those from `first_indexed` on (-1: none) are in the index. `times` are three times
        (ms) to look for."""
        cdef int i
        self.redispatched, self.first_dispatched = redispatched, first_dispatched
        self.first_indexed = first_indexed
        for i in range(3):
            self.wanted[i] = times[i]
        self.records = self.pending = self.before_queues = self.unnamed = self.times_seen = 0
        self.oldest_ms, self.newest_ms = INT64_MAX, INT64_MIN
        self.last, self.first_time, self.last_time = -1, 0, 0
        self.quiet = False
        self.known_view, self.known, self.known_count = None, NULL, -1
        self.has_cursor = self.more_runs = False
        self.run_views = [None, None]
        memset(&self.runs[0], 0, sizeof(self.runs))

    # -- queues

    def add_queue(self, bytes topic, int32_t queue_id, int64_t below):
        """Adds a queue, and returns its number. Records below log address `below` are not looked up
        in it. Raises MemoryError."""
        cdef Queue *q
        cdef Queue *grown
        if self.queue_count % GROWTH == 0:
            grown = <Queue *>realloc(self.queues, (self.queue_count + GROWTH) * sizeof(Queue))
            if grown == NULL:
                raise MemoryError
            self.queues = grown
        q = &self.queues[self.queue_count]
        memset(q, 0, sizeof(Queue))
        q.name, q.length = <const uint8_t *>PyBytes_AS_STRING(topic), len(topic)
        q.id = <uint32_t>queue_id
        q.hash = silo_queue_hash(q.name, q.length, q.id)
        q.below = below
        self.names.append(topic)
        self.views.append(None)
        self.queue_count += 1
        if 2 * self.queue_count > self.mask:
            self._grow()
        else:
            self._enter(self.queue_count - 1)
        return self.queue_count - 1

    cdef void _enter(self, uint32_t number) noexcept:
        cdef uint64_t at = self.queues[number].hash & self.mask
        while self.buckets[at]:
            at = (at + 1) & self.mask
        self.buckets[at] = number + 1

    cdef _grow(self):
        cdef uint32_t number
        cdef uint32_t *grown = <uint32_t *>calloc(4 * (self.mask + 1), sizeof(uint32_t))
        if grown == NULL:
            raise MemoryError
        free(self.buckets)
        self.buckets, self.mask = grown, 4 * (self.mask + 1) - 1
        for number in range(self.queue_count):
            self._enter(number)

    def set_window(self, uint32_t number, const unsigned char[::1] memory, int64_t first,
                   int64_t count):
        """Sets the `count` entries of a queue from queue offset `first` on; `memory` is None if
        there is no such file. Returns how many entries of the window before were the right ones of
        records."""
        assert number < self.queue_count
        cdef Queue *q = &self.queues[number]
        cdef int64_t matched = q.matched
        if memory is not None:
            assert memory.shape[0] >= count * ENTRY_SIZE
        self.views[number] = memory
        q.entries = NULL if memory is None else &memory[0]
        q.first, q.end, q.matched = first, first + count, 0
        return matched

    def take_matched(self, uint32_t number):
        """How many entries of a queue's window were the right ones of records since the last
        call."""
        assert number < self.queue_count
        cdef int64_t matched = self.queues[number].matched
        self.queues[number].matched = 0
        return matched

    # -- index

    def set_index(self, int which, const unsigned char[::1] memory, int64_t slots, int64_t at,
                  int64_t count, int64_t begin_ms):
        """Sets the index file whose entries the next records have (`which` 0), or the one behind it
        (1): its entries [at, count)."""
        assert which in (0, 1)
        assert 1 <= at
        assert INDEX_HEADER + INDEX_SLOT * slots + INDEX_ENTRY * count <= memory.shape[0]
        cdef IndexRun *run = &self.runs[which]
        self.run_views[which] = memory
        run.entries = &memory[0] + INDEX_HEADER + INDEX_SLOT * slots
        run.at, run.count, run.begin_ms, run.matched = at, count, begin_ms, 0
        self.has_cursor = True
        if which == 1:
            self.more_runs = True

    def shift_index(self):
        """Makes the second index file the first one."""
        self.run_views[0], self.run_views[1] = self.run_views[1], None
        self.runs[0] = self.runs[1]
        memset(&self.runs[1], 0, sizeof(IndexRun))
        self.more_runs = False

    def take_indexed(self, int which):
        """How many entries of an index file were the right ones of records since it was set."""
        assert which in (0, 1)
        cdef int64_t matched = self.runs[which].matched
        self.runs[which].matched = 0
        return matched

    def set_known(self, const int64_t[::1] known):
        """Sets all addresses that the index has of the job's records, ascending."""
        self.known_view, self.known_count = known, known.shape[0]
        self.known = &known[0] if known.shape[0] else NULL

    # -- records

    def run(self, const unsigned char[::1] memory not None, uint64_t position, uint64_t limit,
            int64_t base):
        """Checks the records of the log file in `memory`, whose first byte is at address `base`,
        from `position` up to `limit`, bytes into the file. Returns the position behind the last
        good one, and the reason why it ended."""
        cdef int why = 0
        cdef uint64_t size = memory.shape[0]
        cdef const uint8_t *start = &memory[0] if size else NULL
        assert limit <= size
        with nogil:
            while position < limit:
                why = self.check(start + position, size - position, base + <int64_t>position)
                if why != 0:
                    break
                position += silo_be32(start + position)
        if why == UNKNOWN_QUEUE:
            self.need_topic = self._topic(start + position, size - position)
        return position, why

    cdef bytes _topic(self, const uint8_t *at, uint64_t left):
        cdef silo_record m
        silo_parse_record(at, left, &m)
        return (<const char *>(at + m.topic_at))[:m.topic_length]

    cdef int check(self, const uint8_t *at, uint64_t left, int64_t offset) noexcept nogil:
        """Checks one record, and counts it if it is good. Otherwise nothing is counted."""
        cdef silo_record m
        cdef silo_properties p
        cdef Found found
        cdef int why, i
        cdef int64_t stored
        if silo_parse_record(at, left, &m) != RECORD_OK or not silo_is_whole(&m, <uint64_t>offset):
            return 1
        stored = <int64_t>silo_be64(at + m.time_at)
        silo_find_properties(at + m.properties_at, m.properties_length, &p)
        memset(&found, 0, sizeof(found))
        if silo_is_queued(&m):
            why = self.check_entry(&m, &p, offset, stored, &found)
            if why != 0:
                return why
        if 0 <= self.first_indexed <= offset and m.flags & FLAG_TRANSACTION != FLAG_ROLLBACK:
            why = self.check_keys(&m, &p, offset, stored, &found)
            if why != 0:
                return why
        if found.findings:
            if not self.quiet:
                return 1
            self.unnamed += found.findings
        if found.queue != NULL:
            found.queue.matched += 1
        self.pending += found.pending
        self.before_queues += found.before
        for i in range(3):
            if stored == self.wanted[i]:
                self.times_seen |= 1 << i
        if stored < self.oldest_ms:
            self.oldest_ms = stored
        if stored > self.newest_ms:
            self.newest_ms = stored
        if self.records == 0:
            self.first_time = stored
        self.last, self.last_time = offset, stored
        self.records += 1
        return 0

    cdef int check_entry(self, const silo_record *m, const silo_properties *p, int64_t offset,
                         int64_t stored, Found *found) noexcept nogil:
        cdef uint32_t queue_id = silo_be32(m.bytes + RECORD_QUEUE_ID)
        cdef int64_t number = <int64_t>silo_be64(m.bytes + RECORD_QUEUE_OFFSET)
        cdef uint64_t h = silo_queue_hash(m.bytes + m.topic_at, m.topic_length, queue_id)
        cdef uint64_t bucket = h & self.mask
        cdef const uint8_t *entry
        cdef Queue *q = NULL
        while True:
            if self.buckets[bucket] == 0:
                self.need_queue = <int32_t>queue_id
                return 2
            q = &self.queues[self.buckets[bucket] - 1]
            if q.hash == h and q.id == queue_id and q.length == m.topic_length and memcmp(
                    q.name, m.bytes + m.topic_at, m.topic_length) == 0:
                break
            bucket = (bucket + 1) & self.mask
        if offset < q.below:
            return 0
        if number < 0 or number > INT64_MAX / ENTRY_SIZE:
            return 1
        if not q.first <= number < q.end:
            self.need_queue, self.need_offset = q - self.queues, number
            return 3
        if q.entries != NULL:
            entry = q.entries + ENTRY_SIZE * (number - q.first)
            if <int64_t>silo_be64(entry + ENTRY_AT_OFFSET) == offset and (
                    silo_be32(entry + ENTRY_AT_SIZE) == m.total) and (
                    <int64_t>silo_be64(entry + ENTRY_AT_TAGS_CODE) ==
                    silo_tags_code(m, p, self.delays, self.levels)):
                found.queue = q
                return 0
            if silo_be64(entry) != 0 or silo_be64(entry + ENTRY_AT_TAGS_CODE) != 0 or (
                    silo_be32(entry + ENTRY_AT_SIZE) != 0 and
                    silo_be32(entry + ENTRY_AT_SIZE) != BLANK_SIZE):
                return 1
        if offset >= self.redispatched:
            found.pending = 1
        elif offset < self.first_dispatched:
            found.before = 1
        else:
            found.findings += 1
        return 0

    cdef int check_keys(self, const silo_record *m, const silo_properties *p, int64_t offset,
                        int64_t stored, Found *found) noexcept nogil:
        cdef silo_keys keys
        cdef silo_text key
        cdef uint32_t topic_hash
        cdef IndexRun *run
        cdef int64_t taken[2]
        cdef int which
        cdef bint right = True
        silo_first_key(p, &keys)
        if not silo_next_key(&keys, &key):
            return 0
        if self.has_cursor:
            if self.runs[0].at >= self.runs[0].count and self.more_runs:
                return 4
            self.skip(offset)
            which = 1 if self.runs[0].at >= self.runs[0].count else 0
            run = &self.runs[which]
            if run.at < run.count and self.address(run, run.at) == offset:
                topic_hash = silo_java_hash(0, m.bytes + m.topic_at, m.topic_length)
                taken[0] = taken[1] = 0
                while True:
                    if run.at >= run.count and which == 0:
                        which, run = 1, &self.runs[1]
                    if run.at >= run.count or not self.is_entry(
                            run, offset, silo_index_hash(topic_hash, key.at, key.length), stored):
                        right = False
                        break
                    taken[which] += 1
                    run.at += 1
                    if not silo_next_key(&keys, &key):
                        break
                if right:
                    self.runs[0].matched += taken[0]
                    self.runs[1].matched += taken[1]
                return 0
        if self.known_count < 0:
            return 5
        if not self.is_known(offset):
            if offset >= self.redispatched:
                found.pending = 1
            else:
                found.findings += 1
        return 0

    cdef void skip(self, int64_t offset) noexcept nogil:
        """Passes over entries of records before `offset`, and over an entry that is out of
        order."""
        cdef int which
        cdef int64_t here
        cdef IndexRun *run
        for which in range(2):
            run = &self.runs[which]
            while run.at < run.count:
                here = self.address(run, run.at)
                if here >= offset and not (
                        here > offset and run.at + 1 < run.count
                        and self.address(run, run.at + 1) < here):
                    return
                run.at += 1

    cdef int64_t address(self, const IndexRun *run, int64_t number) noexcept nogil:
        return <int64_t>silo_be64(run.entries + INDEX_ENTRY * number + INDEX_PHY_OFFSET)

    cdef bint is_entry(self, const IndexRun *run, int64_t offset, uint32_t key_hash,
                       int64_t stored) noexcept nogil:
        """Whether the next entry is that of a key. The first entry's seconds are not checked: they
        count from the end of the file before."""
        cdef const uint8_t *entry = run.entries + INDEX_ENTRY * run.at
        cdef int64_t seconds = max(stored - run.begin_ms, <int64_t>0) / 1000
        return silo_be32(entry + INDEX_KEY_HASH) == key_hash and (
            self.address(run, run.at) == offset) and (
            run.at == 1 or silo_be32(entry + INDEX_TIME_DIFF) == min(seconds, <int64_t>0x7FFFFFFF))

    cdef bint is_known(self, int64_t offset) noexcept nogil:
        cdef int64_t low = 0, high = self.known_count, middle
        while low < high:
            middle = (low + high) / 2
            if self.known[middle] < offset:
                low = middle + 1
            else:
                high = middle
        return low < self.known_count and self.known[low] == offset
