# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The kernel of the index's check: passes over good entries and slots. `index.py` owns what is a
finding."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort

cdef extern from "shm/layout.h" nogil:
    pass

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/index/index.h" nogil:
    int INDEX_HEADER, INDEX_SLOT, INDEX_ENTRY
    int INDEX_KEY_HASH, INDEX_PHY_OFFSET, INDEX_TIME_DIFF, INDEX_PREV_INDEX

cdef extern from "store/record/properties.h" nogil:
    ctypedef struct silo_text:
        const uint8_t *at
        uint32_t length
    ctypedef struct silo_properties:
        pass
    ctypedef struct silo_keys:
        pass
    void silo_find_properties(const uint8_t *p, uint32_t length, silo_properties *out)
    void silo_first_key(const silo_properties *found, silo_keys *keys)
    int silo_next_key(silo_keys *keys, silo_text *key)
    uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length)
    uint32_t silo_index_hash(uint32_t topic_hash, const uint8_t *key, uint32_t length)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t time_at, topic_at, topic_length, properties_at, properties_length
    int RECORD_OK
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)

cdef extern from "store/record/whole.h" nogil:
    int silo_is_readable(const silo_record *m)

cdef extern from *:
    """
    #define silo_prefetch(p) __builtin_prefetch((p), 1, 3)
    """
    void silo_prefetch(const void *p) nogil

cdef enum:
    AHEAD = 16


cdef class IndexEntries:
    """The entries [1, `count`) of the index file in `memory`, which has `slots` slots."""

    cdef const unsigned char[::1] memory
    cdef const uint8_t *first_slot
    cdef const uint8_t *entries
    cdef uint32_t slots
    cdef int64_t count
    cdef uint32_t *newest

    def __cinit__(self, const unsigned char[::1] memory not None, uint32_t slots, int64_t count):
        assert slots > 0
        assert INDEX_HEADER + INDEX_SLOT * <int64_t>slots + INDEX_ENTRY * count <= memory.shape[0]
        self.memory = memory
        self.slots, self.count = slots, count
        self.first_slot = &memory[0] + INDEX_HEADER
        self.entries = self.first_slot + INDEX_SLOT * <uint64_t>slots

    def __dealloc__(self):
        free(self.newest)

    cdef int64_t address(self, int64_t number) noexcept nogil:
        return <int64_t>silo_be64(self.entries + INDEX_ENTRY * number + INDEX_PHY_OFFSET)

    def next_odd_entry(self, int64_t number):
        """The next entry from `number` on that is not linked to the newest one before it of its
        slot, or has a negative hash or time. Returns (its number, the entry that it should be
        linked to); (`count`, 0) if there is none. To be called with ascending numbers."""
        cdef const uint8_t *e
        cdef uint32_t slot, older = 0
        cdef int32_t key_hash, ahead
        if self.newest == NULL:
            self.newest = <uint32_t *>calloc(self.slots, sizeof(uint32_t))
            if self.newest == NULL:
                raise MemoryError
        with nogil:
            while number < self.count:
                if number + AHEAD < self.count:
                    ahead = <int32_t>silo_be32(self.entries + INDEX_ENTRY * (number + AHEAD))
                    silo_prefetch(&self.newest[<uint32_t>ahead % self.slots])
                e = self.entries + INDEX_ENTRY * number
                key_hash = <int32_t>silo_be32(e + INDEX_KEY_HASH)
                if key_hash < 0 or <int32_t>silo_be32(e + INDEX_TIME_DIFF) < 0:
                    older = 0
                    break
                slot = <uint32_t>key_hash % self.slots
                older = self.newest[slot]
                self.newest[slot] = <uint32_t>number
                if silo_be32(e + INDEX_PREV_INDEX) != older:
                    break
                number += 1
        if number >= self.count:
            older = 0
        return number, older

    def next_odd_slot(self, uint32_t slot):
        """The next slot from `slot` on that does not name its newest entry: (its number, that
        entry); (the number of slots, 0) if there is none. To be called when all entries have been
        passed."""
        cdef uint32_t newest = 0
        with nogil:
            while slot < self.slots:
                newest = self.newest[slot]
                if silo_be32(self.first_slot + INDEX_SLOT * <uint64_t>slot) != newest:
                    break
                slot += 1
        if slot >= self.slots:
            newest = 0
        return slot, newest

    def used_slots(self):
        """How many slots name an entry."""
        cdef int64_t used = 0, slot
        with nogil:
            for slot in range(self.slots):
                used += <int32_t>silo_be32(self.first_slot + INDEX_SLOT * slot) > 0
        return used

    def span(self, int64_t first):
        """(How many entries have log addresses of `first` or above, the least and the greatest of
        these addresses). Both are -1 if there is none."""
        cdef int64_t number, offset, live = 0, least = INT64_MAX, greatest = -1
        with nogil:
            for number in range(1, self.count):
                offset = self.address(number)
                if offset >= first:
                    live += 1
                    least = min(least, offset)
                    greatest = max(greatest, offset)
        if live == 0:
            least = -1
        return live, least, greatest

    def first_from(self, int64_t offset):
        """The number of the first entry of log address `offset` or above, if the addresses
        ascend."""
        cdef int64_t low = 1, high = self.count, middle
        while low < high:
            middle = (low + high) // 2
            if self.address(middle) < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def pass_below(self, int64_t number, int64_t first):
        """Passes over entries from `number` on whose log addresses are below `first`. Returns the
        number behind them."""
        while number < self.count and self.address(number) < first:
            number += 1
        return number

    def addresses(self, int64_t low, int64_t high, int64_t[::1] out):
        """Puts the log addresses in [low, high) into `out`, ascending, and returns how many there
        are. If they do not fit, nothing is put there."""
        cdef int64_t number, offset, found = 0, room = out.shape[0]
        with nogil:
            for number in range(1, self.count):
                offset = self.address(number)
                if low <= offset < high:
                    if found < room:
                        out[found] = offset
                    found += 1
            if 0 < found <= room:
                qsort(&out[0], found, sizeof(int64_t), &_compare)
        return found

    def confirm(self, int64_t number, const unsigned char[::1] log not None, int64_t base,
                int64_t end, int64_t begin_ms):
        """Passes over entries from `number` on, while they are exactly those of the keys of records
        below log address `end` in the log file `log` at address `base`. Returns the number behind
        them. `begin_ms` is the file's first time; entry 1 is not compared with it."""
        cdef int64_t offset, stop, seconds
        cdef uint64_t size = log.shape[0], at
        cdef silo_record m
        cdef silo_properties p
        cdef silo_keys keys
        cdef silo_text key
        cdef uint32_t topic_hash
        with nogil:
            while number < self.count:
                offset = self.address(number)
                if offset < base or offset >= end or <uint64_t>(offset - base) >= size:
                    break
                at = <uint64_t>(offset - base)
                if silo_parse_record(&log[at], size - at, &m) != RECORD_OK:
                    break
                if not silo_is_readable(&m):
                    break
                seconds = <int64_t>silo_be64(m.bytes + m.time_at) - begin_ms
                seconds = min(max(seconds, <int64_t>0) // 1000, <int64_t>0x7FFFFFFF)
                silo_find_properties(m.bytes + m.properties_at, m.properties_length, &p)
                topic_hash = silo_java_hash(0, m.bytes + m.topic_at, m.topic_length)
                silo_first_key(&p, &keys)
                stop = number
                while silo_next_key(&keys, &key):
                    if stop >= self.count or not self.is_entry(
                            stop, offset, silo_index_hash(topic_hash, key.at, key.length),
                            seconds):
                        stop = number
                        break
                    stop += 1
                # The run must end here, and entries of a run before it would belong to it.
                if stop == number or stop < self.count and self.address(stop) == offset:
                    break
                number = stop
        return number

    cdef bint is_entry(self, int64_t number, int64_t offset, uint32_t key_hash,
                       int64_t seconds) noexcept nogil:
        cdef const uint8_t *e = self.entries + INDEX_ENTRY * number
        return silo_be32(e + INDEX_KEY_HASH) == key_hash and self.address(number) == offset and (
            number == 1 or silo_be32(e + INDEX_TIME_DIFF) == seconds)


cdef int _compare(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<const int64_t *>a)[0], y = (<const int64_t *>b)[0]
    return (x > y) - (x < y)
