# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled side of the topic table: the hash under which the registry files queues, and the
look-up by it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "store/topics/table.h" nogil:
    ctypedef struct silo_table:
        pass
    void silo_table_open(silo_table *t, uint8_t *base)
    uint64_t silo_queue_hash(const uint8_t *name, uint32_t length, uint32_t queue_id)
    int64_t silo_find_queue(const silo_table *t, const uint8_t *name, uint32_t length,
                            uint32_t queue_id)
    void silo_insert_bucket(const silo_table *t, uint32_t slot)


def queue_hash(bytes topic, uint32_t queue_id):
    """The 64-bit hash under which a queue's entry is filed."""
    return silo_queue_hash(<const uint8_t *><const char *>topic, len(topic), queue_id)


def find_queue(const unsigned char[::1] table not None, bytes topic, uint32_t queue_id):
    """The slot of a queue in `table` (the whole segment), or -1."""
    cdef silo_table t
    silo_table_open(&t, <uint8_t *>&table[0])
    return silo_find_queue(&t, <const uint8_t *><const char *>topic, len(topic), queue_id)


def insert_bucket(unsigned char[::1] table not None, uint32_t slot):
    """Makes look-ups find the entry in `slot`, which must be whole. Only the registry, or a start,
    calls this."""
    cdef silo_table t
    silo_table_open(&t, &table[0])
    silo_insert_bucket(&t, slot)
