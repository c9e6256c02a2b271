# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`FastPull`: the usual pull, from the bytes of its frame to the answer with the stored records.

It serves pulls of a queue that `pull.py` has served to the same group a moment ago, with the same
filter: they find messages, or wait for the next one. All else it leaves to `pull.py`: filters on
properties, declared holes, records in another file than the first one, offsets that were reset.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from silomq.broker.link._records cimport ENTRY_SIZE, silo_copy, silo_measure, silo_walk
from silomq.broker.loop._connection cimport Connection
from silomq.broker.processors._fast_path cimport FastRequest
from silomq.broker.statistics._counters cimport Meter
from silomq.broker.wire._header cimport (
    ANSWER_ROOM, FIELD_ROOM, LITE_PULL_MESSAGE, PULL_MESSAGE, silo_answer, silo_begin_answer,
    silo_end_answer, silo_field, silo_header, silo_number, silo_number32, silo_number_field,
    silo_text_field, silo_value)

import time

from ...store.errors import StoreError
from ...store.reading.get_message import LEAST_BYTES, MOST_BYTES, scan_count

cdef extern from "shm/words.h" nogil:
    uint64_t silo_be64(const uint8_t *p)

cdef enum:
    ONE_WAY = 2                     # a bit of a command's flag
    RETRY_IMMEDIATELY = 20          # codes of answers
    NOT_FOUND = 19
    COMMIT = 1                      # bits of a pull's sysFlag
    SUSPEND = 2
    SUBSCRIPTION = 4
    MOST_NAME = 255                 # of a group or a topic
    MOST_QUEUES = 10_000            # that are known at a time
    ROOM = 768                      # for an answer without its records

cdef bytes TAG = b"TAG"             # the kind of a subscription that names none

assert ROOM >= ANSWER_ROOM + 6 * (FIELD_ROOM + 40)


# What a read came to.
cdef enum:
    UNUSUAL = 0
    ANSWERED = 1
    NOTHING = 2
    PASSED = 3


# The numbers of a request.
cdef struct Fields:
    int32_t queue_id, most, flags
    int64_t offset, commit_offset, version, max_bytes, suspend_ms


cdef class Known:
    """A queue as one group pulls it. `place` has its files (`Reading.place`), `codes` the tags
    codes that are wanted (None: any), `until` the monotonic time (s) after which it must be learnt
    again. `meter` counts what is read, and `reached` is the offset behind it.

    The filter is `subscription` of the kind `kind` for pulls that bring theirs, and for others the
    group's own, of this `version`.
    """

    cdef object queue, log, transfer, topic_view, end_word
    cdef int slot
    cdef bytes topic_seen, subscription, kind
    cdef str group, topic
    cdef const int[::1] codes
    cdef int64_t version
    cdef double until
    cdef Meter meter
    cdef int64_t reached            # the offset behind the last message that was read

    def __init__(self, str group, str topic, place, codes, *, subscription, str kind,
                 int64_t version, double until, Meter meter not None, int64_t reached):
        self.meter = meter
        self.reached = reached
        self.group, self.topic = group, topic
        self.queue, self.log, self.transfer, self.topic_view, self.slot, self.end_word = place
        self.topic_seen = bytes(self.topic_view)
        self.codes = codes
        self.subscription = None if subscription is None else subscription.encode()
        self.kind = kind.encode()
        self.version = version
        self.until = until


cdef class Held:
    """A pull that waits for a message in its queue until `deadline` (monotonic, s)."""

    cdef readonly double deadline
    cdef readonly Connection connection
    cdef FastPull fast
    cdef Known known
    cdef uint64_t turn
    cdef Fields f
    cdef int32_t opaque
    cdef uint32_t form

    def wake(self):
        """Answers, or goes on waiting."""
        self.fast.wake(self)


cdef class FastPull(FastRequest):
    """The usual pulls of all connections.

    `note(group, topic, queue id, offset)` notes how far a group has consumed, and returns whether
    that is done. `holds` has the pulls that wait, each at most `longest_s`; 0 has none wait. A peer
    that has left more than `most_unsent` bytes unread is not served here.
    """

    cdef object note, holds
    cdef double longest_s
    cdef Py_ssize_t most_unsent
    cdef dict known
    cdef uint64_t turn              # how often all was forgotten
    cdef uint64_t pulled, found, missed
    cdef uint64_t served[2]         # of PULL_MESSAGE, LITE_PULL_MESSAGE

    def __init__(self, note, holds, double longest_s, Py_ssize_t most_unsent):
        self.note = note
        self.holds = holds
        self.longest_s = longest_s
        self.most_unsent = most_unsent
        self.known = {}

    def learn(self, Known queue not None, int queue_id):
        """Serves pulls of this queue by this group."""
        if len(self.known) >= MOST_QUEUES:
            self.known.clear()
        posted = queue.version < 0
        key = b"%d\0%d\0%b\0%b" % (
            posted, queue_id, queue.group.encode(), queue.topic.encode())
        self.known[key] = queue

    def forget(self):
        """Serves no pull until its queue is learnt again."""
        self.known.clear()
        self.turn += 1

    def counted(self):
        return {PULL_MESSAGE: self.served[0], LITE_PULL_MESSAGE: self.served[1]}, 0, self.pulled

    def reached(self, str group not None, str topic not None, int queue_id):
        """The offset behind the last message that a group has pulled, -1 if it is not known."""
        cdef int64_t most = -1
        for posted in (0, 1):
            known = self.known.get(
                b"%d\0%d\0%b\0%b" % (posted, queue_id, group.encode(), topic.encode()))
            if known is not None:
                most = max(most, (<Known>known).reached)
        return most

    def reads(self):
        """Pulls that have found messages, and pulls that had to wait."""
        return self.found, self.missed

    cdef bint take(self, Connection connection, const silo_header *h) except -1:
        cdef Fields f
        cdef Known known
        cdef int found
        if h.flag & ONE_WAY or not take_fields(h, &f) or connection.unsent > self.most_unsent:
            return False
        known = self.find(h, &f)
        if known is None or known.until < connection.active_at:
            return False
        if not is_wanted(known, h, &f) or known.topic_view != known.topic_seen:
            return False
        if f.flags & COMMIT and not self.note(
                known.group, known.topic, f.queue_id, f.commit_offset):
            return False
        try:
            found = self.read(connection, h.opaque, h.form, &f, known)
            if found == NOTHING and f.flags & SUSPEND and f.suspend_ms > 0 and self.longest_s:
                found = self.hold(connection, h, &f, known)
        except (StoreError, OSError):
            return False                # pull.py meets it as well, and says what it is
        if found != ANSWERED:
            return False
        self.served[h.code == LITE_PULL_MESSAGE] += 1
        return True

    cdef Known find(self, const silo_header *h, const Fields *f):
        """What is known of the queue that is pulled, or None."""
        cdef const silo_value *group = silo_field(h, "consumerGroup")
        cdef const silo_value *topic = silo_field(h, "topic")
        if group == NULL or topic == NULL or group.escaped or topic.escaped:
            return None
        if group.length > MOST_NAME or topic.length > MOST_NAME:
            return None
        key = b"%d\0%d\0%b\0%b" % (
            f.flags & SUBSCRIPTION != 0, f.queue_id, (<const char *>group.at)[:group.length],
            (<const char *>topic.at)[:topic.length])
        return self.known.get(key)

    cdef int read(self, Connection connection, int32_t opaque, uint32_t form, Fields *f,
                  Known known) except -1:
        """Answers with records. Otherwise NOTHING, behind the last message; PASSED, when `f` has a
        new offset behind messages that nobody wants; or UNUSUAL.
        """
        cdef int64_t least = known.queue.least, end = known.queue.end, log_end, room
        cdef const unsigned char[::1] entries
        cdef const unsigned char[::1] log
        cdef silo_walk w
        cdef silo_walk first
        if f.offset == end and end > least:
            return NOTHING
        if not least <= f.offset < end:
            return UNUSUAL
        entries = known.queue.view(f.offset, min(end - f.offset, <int64_t>scan_count(f.most)))
        w.at = <int64_t>silo_be64(&entries[0])
        file = known.log.file_with(w.at)
        if file is None:
            return UNUSUAL
        log, w.base = file
        log_end = known.log.end
        w.end = min(log_end, w.base + log.shape[0])
        if known.transfer.is_in_memory(log_end - w.at):
            w.limit, room = known.transfer.count_in_memory, known.transfer.bytes_in_memory
        else:
            w.limit, room = known.transfer.count_on_disk, known.transfer.bytes_on_disk
        w.limit = min(w.limit, <int64_t>f.most)
        w.max_bytes = min(room, min(max(f.max_bytes, <int64_t>LEAST_BYTES), <int64_t>MOST_BYTES))
        w.entries = &entries[0]
        w.number, w.next = entries.shape[0] // ENTRY_SIZE, 0
        w.codes, w.code_count = NULL, 0
        if known.codes is not None:
            w.codes, w.code_count = <const int32_t *>&known.codes[0], known.codes.shape[0]
        w.taken = w.bytes = w.size = 0
        first = w
        if not silo_measure(&w, &log[0]) or w.bytes > INT32_MAX - ROOM:
            return UNUSUAL
        if w.bytes == 0:
            f.offset += w.next
            return PASSED
        answer(connection, opaque, form, &first, &w, &log[0], f.offset + w.next, least, end)
        self.pulled += <uint64_t>w.taken
        self.found += 1
        known.reached = f.offset + w.next
        known.meter.count(<uint64_t>w.taken, <uint64_t>w.bytes)
        return ANSWERED

    cdef int hold(self, Connection connection, const silo_header *h, const Fields *f,
                  Known known) except -1:
        """Has a pull wait for a message."""
        cdef Held held
        if self.holds.count >= self.holds.MOST:
            return UNUSUAL
        held = Held.__new__(Held)
        held.deadline = connection.active_at + min(f.suspend_ms / 1000.0, self.longest_s)
        held.connection, held.fast, held.known = connection, self, known
        held.turn = self.turn
        held.f = f[0]
        held.opaque, held.form = h.opaque, h.form
        self.holds.add(known.slot, known.end_word, f.offset, held)
        self.missed += 1
        return ANSWERED

    cdef int wake(self, Held held) except -1:
        """Goes on with a pull that has waited. When anything has changed that it was checked for,
        its client is told to ask again.
        """
        cdef Known known = held.known
        cdef int found = NOTHING
        if held.connection.closed:
            return 0
        try:
            if held.turn != self.turn or known.topic_view != known.topic_seen:
                return refuse(held, RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
            if held.connection.unsent <= self.most_unsent:
                found = PASSED
                while found == PASSED:
                    found = self.read(
                        held.connection, held.opaque, held.form, &held.f, known)
                if found == NOTHING and time.monotonic() < held.deadline:
                    self.holds.add(known.slot, known.end_word, held.f.offset, held)
                    return 0
        except (StoreError, OSError):
            found = UNUSUAL             # the next pull meets it, and says what it is
        if found == NOTHING:
            return refuse(held, NOT_FOUND, "OFFSET_OVERFLOW_ONE")
        if found == UNUSUAL:
            return refuse(held, RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        return 0


cdef int refuse(Held held, int code, const char *remark) except -1:
    """Answers a pull that has waited, without a message."""
    cdef uint8_t head[ROOM]
    cdef int64_t least = held.known.queue.least, end = held.known.queue.end
    cdef Py_ssize_t size = put_head(
        head, held.form, held.opaque, code, remark, held.f.offset, least, end, 0)
    held.connection.send(PyBytes_FromStringAndSize(<const char *>head, size))
    return 0


cdef int answer(Connection connection, int32_t opaque, uint32_t form, silo_walk *first,
                const silo_walk *w, const uint8_t *log, int64_t behind, int64_t least,
                int64_t end) except -1:
    """Sends the records of the walk `w`, which began as `first`."""
    cdef uint8_t head[ROOM]
    cdef uint8_t *out
    cdef bytes data
    cdef Py_ssize_t size = put_head(
        head, form, opaque, 0, "FOUND", behind, least, end, <uint32_t>w.bytes)
    data = PyBytes_FromStringAndSize(NULL, size + w.bytes)
    out = <uint8_t *>PyBytes_AS_STRING(data)
    memcpy(out, head, size)
    silo_copy(first, log, w.taken, out + size)
    connection.send(data)
    return 0


cdef Py_ssize_t put_head(uint8_t *head, uint32_t form, int32_t opaque, int code,
                         const char *remark, int64_t behind, int64_t least, int64_t end,
                         uint32_t body) noexcept:
    """Writes an answer up to its body. Returns its length."""
    cdef silo_answer a
    silo_begin_answer(&a, head, form, code, opaque, remark)
    silo_text_field(&a, "suggestWhichBrokerId", "0", 1)
    silo_number_field(&a, "nextBeginOffset", behind)
    silo_number_field(&a, "minOffset", least)
    silo_number_field(&a, "maxOffset", end)
    silo_text_field(&a, "topicSysFlag", "0", 1)
    silo_text_field(&a, "groupSysFlag", "0", 1)
    return silo_end_answer(&a, body) - head


cdef bint take_fields(const silo_header *h, Fields *out) noexcept:
    """Takes the numbers of a request. False if one is wrong, or must be there and is not."""
    cdef const silo_value *value
    value = silo_field(h, "queueId")
    if value == NULL or not silo_number32(value, &out.queue_id):
        return False
    value = silo_field(h, "queueOffset")
    if value == NULL or not silo_number(value, &out.offset):
        return False
    value = silo_field(h, "maxMsgNums")
    if value == NULL or not silo_number32(value, &out.most):
        return False
    out.most = max(1, out.most)
    value = silo_field(h, "sysFlag")
    if value == NULL or not silo_number32(value, &out.flags):
        return False
    return (take_number(h, "commitOffset", 0, &out.commit_offset)
            and take_number(h, "subVersion", 0, &out.version)
            and take_number(h, "maxMsgBytes", INT32_MAX, &out.max_bytes)
            and take_number(h, "suspendTimeoutMillis", 0, &out.suspend_ms))


cdef bint take_number(const silo_header *h, const char *name, int64_t otherwise,
                      int64_t *out) noexcept:
    """Takes a number that may be missing. False if it is there and wrong."""
    cdef const silo_value *value = silo_field(h, name)
    cdef int64_t found = otherwise
    if value != NULL and not silo_number(value, &found):
        return False
    out[0] = found
    return True


cdef bint is_wanted(Known known, const silo_header *h, const Fields *f) except -1:
    """Whether the request wants the filter that is known."""
    if not f.flags & SUBSCRIPTION:
        return f.version <= known.version
    cdef const silo_value *kind = silo_field(h, "expressionType")
    return (is_text(silo_field(h, "subscription"), known.subscription)
            and (is_text(kind, known.kind) or kind == NULL and known.kind == TAG))


cdef bint is_text(const silo_value *value, bytes text) noexcept:
    """Whether a field has this text. None is that of no field."""
    if value == NULL or text is None:
        return value == NULL and text is None
    return (not value.escaped and value.length == PyBytes_GET_SIZE(text)
            and memcmp(value.at, PyBytes_AS_STRING(text), value.length) == 0)
