# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan for records that were made of halves: committed messages, and halves that were given up.

They lead back to their half in preparedTransactionOffset. Other records leave that 0, which is also
the place of a half at the begin of the log."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, topic_at, topic_length
    int RECORD_OK, FLAG_TRANSACTION, FLAG_COMMIT
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    uint64_t silo_prepared_offset(const silo_record *m)


def finals(const unsigned char[::1] memory not None, uint64_t position, uint64_t end,
           bytes given_up not None):
    """Scans the records of a commit-log file from `position` to `end`, both in bytes from its
    start. Returns ((position, log offset of the half) of each such record, position where the scan
    ended). `given_up` is the topic of halves that were given up.

    It ends at `end`, or before it at the first bytes that are no record, as the end-of-file
    record. `end` must lie within `memory`.
    """
    cdef list found = []
    cdef silo_record m
    cdef uint64_t half
    cdef const char *topic = given_up
    cdef uint32_t length = <uint32_t>len(given_up)
    while position < end:
        if silo_parse_record(&memory[position], end - position, &m) != RECORD_OK:
            break
        half = silo_prepared_offset(&m)
        if (half != 0 or m.flags & FLAG_TRANSACTION == FLAG_COMMIT
                or (m.topic_length == length
                    and memcmp(m.bytes + m.topic_at, topic, length) == 0)):
            found.append((position, half))
        position += m.total
    return found, position
