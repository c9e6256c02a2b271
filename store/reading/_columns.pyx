# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The column kernel: parses records of the log into columns in Arrow's layout, without a Python
object for each record. `store/reading/columns.py` makes arrays of the buffers."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from silomq.store.reading._block cimport make_block, detach, silo_buffer, silo_column, take_parts
from silomq.store.reading._bodies cimport Bodies, find_body, has_good_body, is_its_own, silo_record

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/record/record.h" nogil:
    int RECORD_OK, RECORD_END_OF_FILE, RECORD_NONE
    int RECORD_PHYSICAL_OFFSET
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)

cdef extern from "store/consumequeue/entries.h" nogil:
    ctypedef struct silo_walk:
        const uint8_t *entries
        int64_t number, next
        const int32_t *codes
        int64_t code_count, base, end, limit, max_bytes, taken, bytes, at, size
    int ENTRY_FOUND, ENTRY_ALL, ENTRY_FULL, ENTRY_ELSEWHERE, ENTRY_BAD, ENTRY_SIZE
    int silo_next_entry(silo_walk *w)
    int64_t silo_walk_bytes(const silo_walk *w)

cdef extern from "store/reading/touch.h" nogil:
    void silo_touch(const uint8_t *memory, int64_t base, const int64_t *at, const int64_t *size,
                    int count, int bodies, int texts)

cdef extern from "store/reading/blocks.h" nogil:
    void silo_block_give(void *data, size_t room)

cdef extern from "store/reading/arrow_buffers.h" nogil:
    int silo_reserve(silo_buffer *b, size_t more)
    int silo_add32(silo_buffer *b, uint32_t v)

cdef extern from "store/reading/body_views.h" nogil:
    ctypedef struct silo_views:
        int wanted
        silo_buffer copied
        const uint8_t *source
        int32_t number

cdef extern from "store/record/properties.h" nogil:
    ctypedef struct silo_text:
        pass

cdef extern from "store/reading/columns.h" nogil:
    enum:
        COLUMN_BLOCK, COLUMN_COUNT, COL_BODY, TEXT_COLUMNS, MOST_PAIRS
    ctypedef struct silo_columns:
        uint32_t wanted
        int64_t rows, bytes, more
        int64_t nulls[18]
        silo_column column[18]
        silo_column key, name, value
        silo_text *values
        silo_views views
    int silo_add(silo_columns *c, const silo_record *m, const uint8_t *body, uint32_t length)
    int silo_fill(silo_columns *c)

# Why `Columns.scan` ended. FULL: the limit of rows or bytes. STOP: `stop` is reached. END_OF_FILE:
# an end-of-file record; the position is the memory's length. NOTHING: no record follows.
# BAD_LENGTHS: bytes that are no whole record. BAD_CRC: a body that fails its BODYCRC. BAD_OFFSET: a
# record with another physical offset.
FULL, STOP, END_OF_FILE, NOTHING, BAD_LENGTHS, BAD_CRC, BAD_OFFSET = range(7)
# Why `Columns.take` ended: the record itself is damaged; or the results of `silo_next_entry`.
DAMAGED = ENTRY_BAD + 1
ALL_TAKEN, TAKEN_FULL, ELSEWHERE, BAD_ENTRY = ENTRY_ALL, ENTRY_FULL, ENTRY_ELSEWHERE, ENTRY_BAD

# The bytes that an int32 offset reaches.
VIEW_END = 2 ** 31 - 1

# What `Columns.add` did with a record. NO_ROOM: its decompressed body does not fit into the batch.
cdef enum:
    ADDED, NO_ROOM, FAILED


cdef class Columns:
    """Rows of the columns in `wanted` (a bit for each, numbered as in columns.py).

    Bodies that a producer compressed are decompressed, unless `raw` is set. One that cannot be
    decompressed is null, and `bad_bodies` has its (log offset, why).

    With `views` the body column holds Arrow's views, of 16 bytes each, into the memory that rows
    were added from, and into buffer 0, which has the decompressed bodies. `sources` keeps that
    memory: its items are the buffers from number 1 on. It must be smaller than 2 GiB.

    `rows` and `bytes` (of the records in the log) count what was added. `size` is `bytes` with
    decompressed bodies at their full length: this is what a limit of bytes counts. After `parts` it
    cannot be used again. It serves one thread at a time: a second one gets RuntimeError. Raises
    MemoryError.
    """

    cdef silo_columns c
    cdef bint busy
    cdef Bodies bodies
    cdef readonly list sources
    cdef dict numbers

    def __cinit__(self, uint32_t wanted, bint raw=False, bint views=False):
        cdef int i
        cdef bint ok = True
        self.c.wanted = wanted
        self.c.views.wanted = views
        self.sources = []
        self.numbers = {}
        self.bodies = Bodies(raw)
        for i in range(COLUMN_COUNT):
            ok &= silo_add32(&self.c.column[i].ends, 0)
        ok &= silo_add32(&self.c.key.ends, 0)
        ok &= silo_add32(&self.c.name.ends, 0) & silo_add32(&self.c.value.ends, 0)
        self.c.values = <silo_text *>malloc(MOST_PAIRS * sizeof(silo_text))
        if not ok or self.c.values == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int i
        for i in range(COLUMN_COUNT):
            release(&self.c.column[i])
        release(&self.c.key)
        release(&self.c.name)
        release(&self.c.value)
        silo_block_give(self.c.views.copied.data, self.c.views.copied.room)
        free(self.c.values)

    @property
    def rows(self):
        return self.c.rows

    @property
    def bytes(self):
        return self.c.bytes

    @property
    def has_views(self):
        return bool(self.c.views.wanted)

    @property
    def bad_bodies(self):
        return self.bodies.bad

    @property
    def size(self):
        return self.c.bytes + self.c.more

    cdef bint copies_bodies(self) noexcept nogil:
        return self.c.wanted >> COL_BODY & 1 and not self.c.views.wanted

    cdef int point_to(self, const unsigned char[::1] memory) except -1:
        """Makes `memory` the buffer that views of the next rows point into."""
        if not self.c.views.wanted or self.c.views.source == &memory[0]:
            return 0
        number = self.numbers.get(<uintptr_t>&memory[0])
        if number is None:
            self.sources.append(memory)
            number = self.numbers[<uintptr_t>&memory[0]] = len(self.sources)
        self.c.views.source = &memory[0]
        self.c.views.number = number
        return 0

    cdef int begin(self, int64_t size) except -1:
        """Before `size` bytes of memory are read."""
        if self.c.views.wanted and size > VIEW_END:
            raise ValueError(f"{size} bytes: views reach {VIEW_END}")
        if self.busy:
            raise RuntimeError("these columns are being filled by another thread")
        self.busy = True
        return 0

    def take(self, const unsigned char[::1] log, int64_t base,
             const unsigned char[::1] entries not None, int64_t first, int64_t limit,
             const int32_t[::1] codes, int64_t max_bytes, bint check):
        """Adds the records of a queue's `entries`, of which the first has queue offset `first`.
        `log` holds the log from offset `base` on (None: no file is open yet).

        It stops at `limit` rows, or before records exceed `max_bytes`, but takes at least one. It
        takes only records with one of the tags `codes` (ascending), or any if that is None. With
        `check` a record must have the entry's queue offset and log offset, and its body must pass
        its BODYCRC. Returns (records added, entries examined, why it ended: ALL_TAKEN, TAKEN_FULL,
        ELSEWHERE, BAD_ENTRY or DAMAGED). Raises MemoryError.
        """
        cdef silo_walk w
        cdef int why
        cdef int32_t none = 0
        memset(&w, 0, sizeof(w))
        w.number = entries.shape[0] // ENTRY_SIZE
        w.entries = &entries[0] if w.number else NULL
        w.base = w.end = base
        cdef const uint8_t *memory = NULL
        if log is not None and log.shape[0]:
            memory = &log[0]
            w.end = base + log.shape[0]
        if codes is not None:
            w.code_count = codes.shape[0]
            w.codes = &codes[0] if w.code_count else &none
        w.limit = limit
        w.max_bytes = max_bytes
        w.taken = self.c.rows
        w.bytes = self.c.bytes + self.c.more
        cdef int64_t before = self.c.rows
        self.begin(w.end - base)
        if memory != NULL:
            self.point_to(log)
        with nogil:
            why = self.walk(memory, &w, first, check) if self.reserve(silo_walk_bytes(&w)) else -1
            if why >= 0 and not silo_fill(&self.c):
                why = -1
        self.busy = False
        if why < 0:
            self.bodies.fail()
        return self.c.rows - before, w.next, why

    cdef int walk(self, const uint8_t *memory, silo_walk *w, int64_t first,
                  bint check) noexcept nogil:
        cdef int why = ENTRY_FOUND
        cdef silo_record m
        cdef const uint8_t *r
        cdef int64_t at[COLUMN_BLOCK], size[COLUMN_BLOCK], number[COLUMN_BLOCK]
        cdef int i, count, added
        while why == ENTRY_FOUND:
            count = 0
            while count < COLUMN_BLOCK:
                why = silo_next_entry(w)
                if why != ENTRY_FOUND:
                    break
                at[count], size[count], number[count] = w.at, w.size, w.next - 1
                count += 1
            silo_touch(memory, w.base, at, size, count, self.copies_bodies(),
                       self.c.wanted & TEXT_COLUMNS)
            for i in range(count):
                r = memory + (at[i] - w.base)
                if (silo_parse_record(r, <uint64_t>size[i], &m) != RECORD_OK or m.total != size[i]
                        or check and not is_its_own(r, &m, first + number[i], at[i])):
                    w.next = number[i]
                    return 4
                added = self.add(&m, w.max_bytes)
                if added == NO_ROOM:
                    w.next = number[i]
                    return ENTRY_FULL
                if added == FAILED:
                    return -1
            w.bytes = self.c.bytes + self.c.more
        return why

    def scan(self, const unsigned char[::1] memory not None, int64_t position, int64_t base,
             int64_t stop, int64_t limit, int64_t max_bytes, bint check):
        """Adds the records of a commit-log file's `memory`, whose first byte is at log offset
        `base`. It adds those that begin at `position` (bytes into it) or behind, and before `stop`.

        It stops at `limit` rows, or before records exceed `max_bytes`, but takes at least one. With
        `check` bodies must pass their BODYCRC. Returns (position behind the last record, why it
        ended). Raises MemoryError, and ValueError for a negative position.
        """
        cdef int64_t size = memory.shape[0]
        cdef const uint8_t *p = &memory[0] if size else NULL
        cdef const uint8_t *r
        cdef silo_record m
        cdef int found, added, why = 1
        if position < 0:
            raise ValueError(f"position {position}: from 0 on")
        stop = min(stop, size)
        self.begin(size)
        if size:
            self.point_to(memory)
        with nogil:
            if not self.reserve(min(max_bytes, stop - position)):
                position, why = stop, -1
            while position < stop:
                r = p + position
                found = silo_parse_record(r, <uint64_t>(size - position), &m)
                if found == RECORD_END_OF_FILE:
                    why = 2 if silo_be32(r) == size - position else 4
                    if why == 2:
                        position = size
                    break
                if found != RECORD_OK:
                    why = 3 if found == RECORD_NONE else 4
                    break
                if silo_be64(r + RECORD_PHYSICAL_OFFSET) != <uint64_t>(base + position):
                    why = 6
                    break
                if check and not has_good_body(r, &m):
                    why = 5
                    break
                if self.c.rows >= limit or (
                        self.c.rows and self.c.bytes + self.c.more + m.total > max_bytes):
                    why = 0
                    break
                added = self.add(&m, max_bytes)
                if added != ADDED:
                    why = 0 if added == NO_ROOM else -1
                    break
                position += m.total
            if why >= 0 and not silo_fill(&self.c):
                why = -1
        self.busy = False
        if why < 0:
            self.bodies.fail()
        return position, why

    cdef int add(self, const silo_record *m, int64_t max_bytes) noexcept nogil:
        """Adds a record with its body, unless the batch has no room for that."""
        cdef int64_t more = 0
        if self.c.wanted >> COL_BODY & 1:
            if not find_body(self.bodies, m):
                return FAILED
            if self.bodies.at != NULL:
                more = <int64_t>self.bodies.length - m.body_length
            if (self.c.rows and (more or self.c.more)
                    and self.c.bytes + self.c.more + m.total + more > max_bytes):
                return NO_ROOM
            if self.bodies.at == NULL:
                self.bodies.note(m)
            self.c.more += more
        return ADDED if silo_add(&self.c, m, self.bodies.at, self.bodies.length) else FAILED

    cdef bint reserve(self, int64_t body_bytes) noexcept nogil:
        """Makes room for all bodies at once: a buffer that grows is copied each time."""
        if not self.copies_bodies() or body_bytes <= 0:
            return True
        return silo_reserve(&self.c.column[COL_BODY].data, <size_t>body_bytes)

    def parts(self):
        """Moves the rows out, to be called once: the number of each wanted column -> (number of
        nulls, validity bits, int32 ends, data). Under -1, -2 and -3 are the elements of keys, and
        the names and the values of properties; the data under -4 are buffer 0 of views."""
        cdef int i
        self.begin(0)
        found = {i: (self.c.nulls[i], *take_parts(&self.c.column[i]))
                 for i in range(COLUMN_COUNT) if self.c.wanted >> i & 1}
        found[-1] = (0, *take_parts(&self.c.key))
        found[-2] = (0, *take_parts(&self.c.name))
        found[-3] = (0, *take_parts(&self.c.value))
        found[-4] = (0, make_block(0), make_block(0), detach(&self.c.views.copied))
        return found


cdef void release(silo_column *c) noexcept:
    silo_block_give(c.data.data, c.data.room)
    silo_block_give(c.ends.data, c.ends.room)
    silo_block_give(c.valid.data, c.valid.room)
