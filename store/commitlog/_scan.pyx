# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan kernel: reads a commit-log file record by record, up to the first bad one, and looks for
good records behind it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

cdef extern from "shm/checksum.h" nogil:
    uint32_t silo_crc32(uint32_t seed, const uint8_t *p, size_t n)

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        uint32_t total, body_at, body_length, time_at
    int RECORD_OK, RECORD_END_OF_FILE, RECORD_NONE, RECORD_BODY_CRC, RECORD_PHYSICAL_OFFSET
    int RECORD_TOTAL_SIZE, RECORD_MAGIC, END_OF_FILE_SIZE
    uint32_t RECORD_MAGIC_V1
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    int silo_is_torn(const silo_record *m, uint64_t position)

cdef extern from "store/record/whole.h" nogil:
    int silo_is_whole(const silo_record *m, uint64_t offset)

END_OF_FILE, NOTHING, BAD_LENGTHS, BAD_CRC, BAD_OFFSET, FULL, TORN, UNREADABLE = range(8)


def scan(const unsigned char[::1] memory not None, uint64_t position, uint64_t base,
         bint check_crc, bint refuse_torn=False, bint refuse_unreadable=False):
    """Scans the file in `memory`, whose first byte is at log offset `base`, from `position` (bytes
    into it) on.

    Returns (position behind the last good record, number of records, newest store timestamp, epoch
    ms, why it ended). It ends with END_OF_FILE (an end-of-file record; the position is the file's
    length), FULL (the file ends without one), NOTHING (no record follows), or the fault of the
    bytes that follow.

    `refuse_torn` checks more than RocketMQ does. No checksum covers topic and properties; zeros
    where they cannot have any show that a sector never reached the disk (TORN).
    `refuse_unreadable` checks all that decoding demands (store/record/format.py): UTF-8, ports, and
    the checksum of the whole record, if it has one.
    """
    cdef uint64_t size = memory.shape[0], records = 0
    cdef int64_t newest = 0, stored
    cdef const uint8_t *r
    cdef silo_record m
    cdef int found, why = 5
    with nogil:
        while position < size:
            r = &memory[position]
            found = silo_parse_record(r, size - position, &m)
            if found == RECORD_END_OF_FILE:
                why = 0 if silo_be32(r + RECORD_TOTAL_SIZE) == size - position else 2
                if why == 0:
                    position = size
                break
            if found != RECORD_OK:
                why = 1 if found == RECORD_NONE else 2
                break
            if silo_be64(r + RECORD_PHYSICAL_OFFSET) != base + position:
                why = 4
                break
            if check_crc and silo_be32(r + RECORD_BODY_CRC) != (
                    silo_crc32(0, r + m.body_at, m.body_length) & 0x7FFFFFFF):
                why = 3
                break
            if refuse_torn and silo_is_torn(&m, position):
                why = 6
                break
            if refuse_unreadable and not silo_is_whole(&m, base + position):
                why = 7
                break
            stored = <int64_t>silo_be64(r + m.time_at)
            if stored > newest:
                newest = stored
            records += 1
            position += m.total
    return position, records, newest, why


def find_record(const unsigned char[::1] memory not None, uint64_t position, uint64_t base,
                int64_t not_before, bint refuse_unreadable=False):
    """Finds the first whole record with a good body from `position` on that was stored at
    `not_before` (epoch ms) or later: (position, store timestamp), or (-1, 0). `refuse_unreadable`
    as for `scan`."""
    cdef uint64_t size = memory.shape[0]
    cdef int64_t stored = 0
    cdef const uint8_t *p = &memory[0]
    cdef const uint8_t *r
    cdef silo_record m
    cdef bint found = False
    with nogil:
        while position + END_OF_FILE_SIZE <= size:
            r = p + position + RECORD_MAGIC
            r = <const uint8_t *>memchr(r, RECORD_MAGIC_V1 >> 24, p + size - r)
            if r == NULL:
                break
            r -= RECORD_MAGIC
            position = r - p
            # Both magics have these two bytes.
            if r[RECORD_MAGIC + 1] == (RECORD_MAGIC_V1 >> 16 & 0xFF) and silo_parse_record(
                    r, size - position, &m) == RECORD_OK and (
                    silo_be64(r + RECORD_PHYSICAL_OFFSET) == base + position) and (
                    silo_be32(r + RECORD_BODY_CRC) == (
                        silo_crc32(0, r + m.body_at, m.body_length) & 0x7FFFFFFF)) and (
                    not silo_is_torn(&m, position)) and not (
                    refuse_unreadable and not silo_is_whole(&m, base + position)):
                stored = <int64_t>silo_be64(r + m.time_at)
                if stored >= not_before:
                    found = True
                    break
            position += 1
    if found:
        return position, stored
    return -1, 0


def used_end(const unsigned char[::1] memory not None, uint64_t position):
    """The position behind the last byte that is not zero; `position` if all from there on are."""
    cdef uint64_t end = memory.shape[0]
    cdef const uint8_t *p = &memory[0]
    cdef uint64_t word
    with nogil:
        while end >= position + 8:
            memcpy(&word, p + end - 8, 8)
            if word != 0:
                break
            end -= 8
        while end > position and p[end - 1] == 0:
            end -= 1
    return end


def used_begin(const unsigned char[::1] memory not None, uint64_t position):
    """The position of the first byte from `position` on that is not zero; the memory's size if all
    are zero."""
    cdef uint64_t end = memory.shape[0], step, i
    cdef const uint8_t *p
    cdef uint64_t word, some
    if end == 0:
        return 0
    p = &memory[0]
    with nogil:
        while position < end:
            step = min(<uint64_t>4096, end - position)
            some = 0
            for i in range(step / 8):
                memcpy(&word, p + position + 8 * i, 8)
                some |= word
            for i in range(step - step % 8, step):
                some |= p[position + i]
            if some != 0:
                while p[position] == 0:
                    position += 1
                break
            position += step
    return position


def bounds(const unsigned char[::1] memory not None, uint64_t base, uint64_t position=0,
           uint64_t stop=0xFFFFFFFFFFFFFFFF):
    """Of the records in a good file that begin from `position` on and before `stop`: their number,
    the log offset of the last one, the store timestamps (epoch ms) of the first and the last, and
    the position behind them. Without records the offset is -1, times are 0.
    """
    cdef uint64_t size = memory.shape[0], records = 0
    cdef int64_t last = -1, first_time = 0, last_time = 0
    cdef const uint8_t *r
    cdef silo_record m
    with nogil:
        while position < size and position < stop:
            r = &memory[position]
            if silo_parse_record(r, size - position, &m) != RECORD_OK:
                break
            last_time = <int64_t>silo_be64(r + m.time_at)
            if records == 0:
                first_time = last_time
            last = base + position
            records += 1
            position += m.total
    return records, last, first_time, last_time, position
