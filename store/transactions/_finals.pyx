# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan for records that were made of halves: committed messages, and halves that were given up.

They lead back to their half in preparedTransactionOffset, which other records leave 0."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        uint32_t total
    int RECORD_OK
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    uint64_t silo_prepared_offset(const silo_record *m)


def finals(const unsigned char[::1] memory not None, uint64_t position, uint64_t end):
    """Scans the records of a commit-log file from `position` to `end`, both in bytes from its
    start. Returns ((position, log offset of the half) of each such record, position where the scan
    ended).

    It ends at `end`, or before it at the first bytes that are no record, as the end-of-file
    record. `end` must lie within `memory`.
    """
    cdef list found = []
    cdef silo_record m
    cdef uint64_t half
    while position < end:
        if silo_parse_record(&memory[position], end - position, &m) != RECORD_OK:
            break
        half = silo_prepared_offset(&m)
        if half != 0:
            found.append((position, half))
        position += m.total
    return found, position
