# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The kernel of the queues' check: passes over good entries. `queue.py` owns what is a finding."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/consumequeue/entries.h" nogil:
    int ENTRY_SIZE, ENTRY_AT_OFFSET, ENTRY_AT_SIZE, ENTRY_AT_TAGS_CODE

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, topic_at, topic_length
    int RECORD_OK, RECORD_FIXED, RECORD_QUEUE_ID, RECORD_QUEUE_OFFSET
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)


def ascending(const unsigned char[::1] entries not None, uint64_t position, int64_t before,
              int64_t first):
    """Passes over entries from `position` (bytes) on, while they are not empty and their log
    addresses ascend from `before` on.

    Returns (position behind them, the last one's address, how many of them have an address of
    `first` or above, the address of the first of these or -1).
    """
    cdef uint64_t size = entries.shape[0]
    cdef const uint8_t *e
    cdef int64_t live = 0, least = -1, offset
    with nogil:
        while position + ENTRY_SIZE <= size:
            e = &entries[position]
            offset = <int64_t>silo_be64(e + ENTRY_AT_OFFSET)
            if <int32_t>silo_be32(e + ENTRY_AT_SIZE) <= 0 or offset <= before:
                break
            if offset >= first:
                if live == 0:
                    least = offset
                live += 1
            before = offset
            position += ENTRY_SIZE
    return position, before, live, least


def confirm(const unsigned char[::1] entries not None, uint64_t position, int64_t before,
            const unsigned char[::1] log not None, int64_t base, int64_t end, bytes topic not None,
            int64_t queue_id, int64_t queue_offset):
    """Passes over entries from `position` (bytes) on, while they ascend from `before` on and lead
    to records of this queue below log address `end` in the log file `log` at address `base`.

    `queue_offset` is that of the first entry. Returns (position behind them, the last one's
    address).
    """
    cdef uint64_t size = entries.shape[0], left = log.shape[0], at
    cdef const uint8_t *e
    cdef const uint8_t *r
    cdef int64_t offset, length
    cdef const char *name = topic
    cdef uint32_t name_length = len(topic)
    cdef silo_record m
    with nogil:
        while position + ENTRY_SIZE <= size:
            e = &entries[position]
            offset = <int64_t>silo_be64(e + ENTRY_AT_OFFSET)
            length = <int32_t>silo_be32(e + ENTRY_AT_SIZE)
            if offset <= before or offset < base or offset >= end or length < RECORD_FIXED:
                break
            at = <uint64_t>(offset - base)
            if at >= left or <uint64_t>length > left - at:
                break
            r = &log[at]
            if silo_parse_record(r, left - at, &m) != RECORD_OK:
                break
            if m.topic_length != name_length or memcmp(r + m.topic_at, name, name_length) != 0:
                break
            if m.total != <uint32_t>length or (
                    <int32_t>silo_be32(r + RECORD_QUEUE_ID) != queue_id) or (
                    <int64_t>silo_be64(r + RECORD_QUEUE_OFFSET) != queue_offset):
                break
            before = offset
            queue_offset += 1
            position += ENTRY_SIZE
    return position, before
