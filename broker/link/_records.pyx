# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Takes a batch of stored records out of one commit-log file, as queue entries lead to them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

import array

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)

cdef extern from "store/record/record.h" nogil:
    int RECORD_TOTAL_SIZE, RECORD_MAGIC, RECORD_FIXED
    uint32_t RECORD_MAGIC_V1, RECORD_MAGIC_V2

cdef extern from "store/consumequeue/entries.h" nogil:
    int ENTRY_SIZE, ENTRY_FOUND, ENTRY_ALL, ENTRY_FULL
    ctypedef struct silo_walk:
        const uint8_t *entries
        int64_t number, next
        const int32_t *codes
        int64_t code_count, base, end, limit, max_bytes, taken, bytes, at, size
    int silo_next_entry(silo_walk *w)


def sorted_codes(codes):
    """Tags codes in the form that `take` wants; None stays None."""
    return None if codes is None else array.array("i", sorted(codes))


def take(const unsigned char[::1] entries not None, const unsigned char[::1] log not None,
         int64_t base, int64_t end, const int[::1] codes, *, int64_t most, int64_t max_bytes):
    """The records to which `entries` lead, of which those have one of `codes` (None: any), back to
    back, and how many entries were passed.

    `log` is the commit-log file that begins at log offset `base`; records end below `end`. At most
    `most` records are taken and `max_bytes` bytes, but at least one. None for entries whose first
    record is elsewhere, or is none: only the general way can say what that means.
    """
    cdef silo_walk w
    cdef silo_walk first
    cdef int found
    cdef const uint8_t *record
    cdef bytes data
    cdef char *out
    if entries.shape[0] == 0:
        return None
    w.entries = &entries[0]
    w.number, w.next = entries.shape[0] // ENTRY_SIZE, 0
    w.codes, w.code_count = NULL, 0
    if codes is not None:
        w.codes, w.code_count = <const int32_t *>&codes[0], codes.shape[0]
    w.base, w.end = base, min(end, base + log.shape[0])
    w.limit, w.max_bytes = most, max_bytes
    w.taken = w.bytes = w.at = w.size = 0
    first = w
    while True:
        found = silo_next_entry(&w)
        if found != ENTRY_FOUND:
            break
        record = &log[w.at - base]
        if (w.size < RECORD_FIXED or silo_be32(record + RECORD_TOTAL_SIZE) != <uint32_t>w.size
                or silo_be32(record + RECORD_MAGIC) not in (RECORD_MAGIC_V1, RECORD_MAGIC_V2)):
            w.taken -= 1
            w.bytes -= w.size
            w.next -= 1
            break
    if w.taken == 0 and found not in (ENTRY_ALL, ENTRY_FULL):
        return None
    data = PyBytes_FromStringAndSize(NULL, w.bytes)
    out = PyBytes_AS_STRING(data)
    first.limit = w.taken
    while first.taken < w.taken and silo_next_entry(&first) == ENTRY_FOUND:
        memcpy(out, &log[first.at - base], first.size)
        out += first.size
    return data, w.next
