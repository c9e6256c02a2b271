# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What the process `transactions` needs of halves and decisions, from the log's bytes. Any client
may write millions of decisions that are about nothing. `screen` refuses them as fast as append
stores them, so they delay no others (tests hold both against the decoder of records)."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memset

cdef extern from "Python.h":
    char *PyBytes_AS_STRING(object)
    Py_ssize_t PyBytes_GET_SIZE(object)

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/record/record.h" nogil:
    ctypedef struct silo_record:
        const uint8_t *bytes
        uint32_t total, flags, time_at, body_at, body_length
        uint32_t topic_at, topic_length, properties_at, properties_length
    int RECORD_OK, RECORD_BODY_CRC, RECORD_PHYSICAL_OFFSET, RECORD_BORN_TIMESTAMP
    int silo_parse_record(const uint8_t *r, uint64_t left, silo_record *out)
    int silo_has_crc_property(const silo_record *m)

cdef extern from "store/record/properties.h" nogil:
    ctypedef struct silo_text:
        const uint8_t *at
        uint32_t length

cdef enum:
    MOST = 8  # properties
    ENTRY = 20  # bytes
    DIGITS = 19

cpdef enum:
    # Of `screen`, as indexes of its counts.
    NO_DECISION, NO_HALF, OTHER_GROUP, ENDED


cdef int find(const silo_record *m, tuple names, silo_text *values) except -1:
    """The values of the named properties, by the rules of `decode_properties`."""
    cdef const uint8_t *p = m.bytes + m.properties_at
    cdef const uint8_t *end = p + m.properties_length
    cdef const uint8_t *stop
    cdef const uint8_t *mid
    cdef silo_text wanted[MOST]
    cdef int i, count = <int>len(names)
    assert count <= MOST
    for i in range(count):
        wanted[i].at = <const uint8_t *>PyBytes_AS_STRING(names[i])
        wanted[i].length = <uint32_t>PyBytes_GET_SIZE(names[i])
    memset(values, 0, count * sizeof(silo_text))
    while p < end:
        stop = <const uint8_t *>memchr(p, 2, end - p)
        if stop == NULL:
            stop = end
        mid = <const uint8_t *>memchr(p, 1, stop - p)
        if mid != NULL and mid != p and mid + 1 != stop:
            for i in range(count):
                if mid - p == wanted[i].length and memcmp(p, wanted[i].at, mid - p) == 0:
                    values[i].at = mid + 1
                    values[i].length = <uint32_t>(stop - mid - 1)
                    break
        p = stop + 1
    return 0


cdef str text(silo_text found):
    return (<const char *>found.at)[:found.length].decode("utf-8") if found.length else ""


cdef int64_t number(silo_text digits) noexcept:
    """A decimal number of up to 19 digits, below 2**63. -1 for anything else."""
    cdef uint64_t found = 0
    cdef uint32_t i
    if not 0 < digits.length <= DIGITS:
        return -1
    for i in range(digits.length):
        if not 48 <= digits.at[i] <= 57:
            return -1
        found = found * 10 + digits.at[i] - 48
    return <int64_t>found if found < <uint64_t>1 << 63 else -1


def parts(const unsigned char[::1] memory not None, uint64_t at, uint64_t size,
          tuple names not None):
    """The parts of the record of `size` bytes at `at`: its topic, birth and store time (epoch ms),
    the body's checksum, where the body begins and ends in `memory`, and the values of the named
    properties ("" for one that is missing). None for a record that needs the thorough decoder: it
    is damaged, has a checksum of its own, or its texts are not UTF-8.
    """
    cdef silo_record m
    cdef silo_text values[MOST]
    cdef const uint8_t *r
    if at >= <uint64_t>len(memory) or size > <uint64_t>len(memory) - at:
        return None
    r = &memory[at]
    if silo_parse_record(r, size, &m) != RECORD_OK or m.total != size or silo_has_crc_property(&m):
        return None
    find(&m, names, values)
    try:
        (<const char *>r)[m.properties_at:m.total].decode("utf-8")  # it is UTF-8 as a whole
        return (
            r[m.topic_at:m.topic_at + m.topic_length].decode("utf-8"),
            <int64_t>silo_be64(r + RECORD_BORN_TIMESTAMP),
            <int64_t>silo_be64(r + m.time_at),
            silo_be32(r + RECORD_BODY_CRC),
            at + m.body_at,
            at + m.body_at + m.body_length,
            [text(values[i]) for i in range(len(names))],
        )
    except UnicodeDecodeError:
        return None


cdef class Window:
    """The bytes of one file, which begins at `base` of the log or of a queue."""
    cdef const unsigned char[::1] view
    cdef const uint8_t *first
    cdef uint64_t base, length
    cdef object opens

    def __cinit__(self, opens):
        self.opens = opens
        self.base = self.length = 0

    cdef const uint8_t *at(self, uint64_t position, uint64_t *left) except? NULL:
        """The byte at `position`, and how many there are from it on. NULL if the file is gone."""
        if not self.base <= position < self.base + self.length:
            found = self.opens(position)
            if found is None:
                return NULL
            self.base, memory = found
            self.view = memory
            self.length = <uint64_t>len(self.view)
            if not self.base <= position < self.base + self.length:
                return NULL
            self.first = &self.view[0]
        left[0] = self.base + self.length - position
        return self.first + (position - self.base)


cdef int parse(Window log, uint64_t offset, uint64_t size, silo_record *out) except -1:
    """Whether a record of `size` bytes lies at a log offset."""
    cdef uint64_t left = 0
    cdef const uint8_t *r = log.at(offset, &left)
    if r == NULL or size > left:
        return 0
    return silo_parse_record(r, size, out) == RECORD_OK and out.total == size


cdef object token(const silo_record *m, silo_text key):
    cdef bytes raw = (<const char *>key.at)[:key.length] if key.length else b""
    return hash((
        raw,
        <int64_t>silo_be64(m.bytes + RECORD_BORN_TIMESTAMP),
        silo_be32(m.bytes + RECORD_BODY_CRC),
    ))


cdef struct Told:
    # What a decision says, and where its properties are.
    int64_t place, offset, kind
    silo_text group, properties


cdef class Screen:
    """What `screen` is told, and the files that it reads."""
    cdef dict newest, tokens
    cdef uint64_t least, following, end
    cdef Window decisions, halves, places
    cdef tuple decision, half
    cdef int64_t commit, rollback

    cdef int verdict(self, uint64_t offset, uint64_t size, Told *out) except -2:
        """The verdict about the decision at a log offset, -1 if it may be about an open
        transaction.
        """
        cdef silo_record m
        cdef silo_text said[MOST]
        out.offset = -1
        if not parse(self.decisions, offset, size, &m):
            return NO_DECISION
        find(&m, self.decision, said)
        out.group = said[0]
        out.properties.at = m.bytes + m.properties_at
        out.properties.length = m.properties_length
        out.place, out.offset, out.kind = number(said[1]), number(said[2]), number(said[3])
        if out.place < 0 or out.offset < 0 or out.kind not in (self.commit, self.rollback):
            return NO_DECISION
        return -1 if out.offset in self.newest else self.older(out)

    cdef int older(self, const Told *told) except -2:
        """The same for one that names no newest half."""
        cdef uint64_t place = <uint64_t>told.place, left = 0
        cdef silo_record m
        cdef silo_text has[MOST]
        cdef const uint8_t *entry
        if not self.least <= place < self.end:
            return NO_HALF
        entry = self.places.at(place * ENTRY, &left)
        if entry == NULL or left < ENTRY or <int64_t>silo_be64(entry) != told.offset:
            return NO_HALF
        if not parse(self.halves, told.offset, silo_be32(entry + 8), &m):
            return NO_HALF
        find(&m, self.half, has)
        if has[0].length == 0 or has[0].length != told.group.length or memcmp(
                has[0].at, told.group.at, has[0].length) != 0:
            return OTHER_GROUP
        return -1 if place >= self.following or token(&m, has[1]) in self.tokens else ENDED


def screen(list entries not None, uint64_t place, uint64_t most, *, dict newest not None,
           dict tokens not None, tuple bounds not None, log, queue, tuple decision not None,
           tuple half not None, tuple kinds not None):
    """Looks through decisions: `entries` of their queue from queue offset `place` on.

    Returns (found, how many entries were looked at, counts, first). `found` are up to `most`
    decisions that may be about an open transaction, each as (place, commit, queue offset and log
    offset of the half, group). `counts` are the refused ones by verdict, and `first` has the log
    offset that the first of each names, or -1.

    `newest` has the log offsets of the newest halves of open transactions. `tokens` has hashes of
    (UNIQ_KEY, birth, checksum) of all that are open. `bounds` are (the least queue offset, the next
    to be read, the end) of the half queue. A decision about a half that is not read ends the look.
    `log` and `queue` map a position to (begin, bytes) of its file, or None. `decision` and `half`
    are names of properties: those of a decision in order, and PGROUP and UNIQ_KEY.
    """
    cdef Screen by = Screen.__new__(Screen)
    cdef uint64_t where, size, taken = 0
    cdef int verdict
    cdef Told told
    cdef list found = [], counts = [0] * 4, first = [-1] * 4
    by.newest, by.tokens, by.decision, by.half = newest, tokens, decision, half
    by.least, by.following, by.end = bounds
    by.commit, by.rollback = kinds
    by.decisions, by.halves, by.places = Window(log), Window(log), Window(queue)
    for where, size, _ in entries:
        if <uint64_t>len(found) >= most:
            break
        verdict = by.verdict(where, size, &told)
        if verdict < 0:
            try:
                text(told.properties)  # a decision is UTF-8 as a whole
                found.append((place + taken, told.kind == by.commit, told.place, told.offset,
                              text(told.group)))
            except UnicodeDecodeError:
                verdict = NO_DECISION
        taken += 1
        if verdict >= 0:
            if counts[verdict] == 0:
                first[verdict] = told.offset
            counts[verdict] += 1
        elif <uint64_t>told.place >= by.following:
            break
    return found, taken, counts, first
