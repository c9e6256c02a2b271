# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan for delivered records: those that the schedule process sent when their delay was over.

Waiting and delivered records both have REAL_TOPIC; only waiting ones lie in a topic of delays."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

cdef extern from "<string.h>" nogil:
    void *memmem(const void *where, size_t n, const void *what, size_t length)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        uint32_t total, topic_at, topic_length, properties_at, properties_length
    int RECORD_OK
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)

cdef const char *LEVELS = "SCHEDULE_TOPIC_XXXX"
cdef const char *TIMER = "rmq_sys_wheel_timer"
cdef const char *MARK = "REAL_TOPIC\x01"


def delivered(const unsigned char[::1] memory not None, uint64_t position, uint64_t end):
    """Scans the records of a commit-log file from `position` to `end`, both in bytes from its
    start. Returns (positions of the delivered records, position where the scan ended).

    It ends at `end`, or before it at the first bytes that are no record, as the end-of-file
    record. `end` must lie within `memory`.
    """
    cdef list found = []
    cdef const uint8_t *r
    cdef silo_record m
    while position < end:
        r = &memory[position]
        if silo_parse_record(r, end - position, &m) != RECORD_OK:
            break
        if memmem(r + m.properties_at, m.properties_length, MARK, 11) != NULL and not (
                m.topic_length == 19 and (memcmp(r + m.topic_at, LEVELS, 19) == 0
                                          or memcmp(r + m.topic_at, TIMER, 19) == 0)):
            found.append(position)
        position += m.total
    return found, position
