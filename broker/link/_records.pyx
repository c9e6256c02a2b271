# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Takes a batch of stored records out of one commit-log file, as queue entries lead to them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

import array

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)

cdef extern from "store/record/record.h" nogil:
    int RECORD_TOTAL_SIZE, RECORD_FIXED


def count(const unsigned char[::1] records not None):
    """How many records lie back to back in `records`, as `take` has returned them."""
    cdef Py_ssize_t at = 0, found = 0
    cdef uint32_t size
    while at + RECORD_FIXED <= records.shape[0]:
        size = silo_be32(&records[at + RECORD_TOTAL_SIZE])
        if size < <uint32_t>RECORD_FIXED:
            break
        at += size
        found += 1
    return found


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
    cdef bytes data
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
    if not silo_measure(&w, &log[0]):
        return None
    data = PyBytes_FromStringAndSize(NULL, w.bytes)
    silo_copy(&first, &log[0], w.taken, <uint8_t *>PyBytes_AS_STRING(data))
    return data, w.next
