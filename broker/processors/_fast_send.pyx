# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`FastSend`: the usual SEND, from the bytes of its frame into the store's ring.

It serves messages and batches for topics that `send.py` has sent to before, and that need no
decision. All else it leaves to `send.py`: unknown topics, delays, timers, transactions, further
tries, text that is not ASCII, and whatever is too long or wrong.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from silomq.broker.loop._connection cimport Connection
from silomq.broker.processors._fast_path cimport FastRequest
from silomq.broker.processors._send_answers cimport Answers, Reply
from silomq.broker.statistics._counters cimport Meter, coarse_ms
from silomq.broker.wire._header cimport (
    SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2, silo_field, silo_header, silo_is,
    silo_number, silo_number32, silo_unescape, silo_value)
from silomq.client.producing._ring cimport (
    FRAME_HEADER, Ring, frame_length, silo_realtime_us,
)
from silomq.store.record._new_record cimport silo_begin_record, silo_new_record

import array
import os

cdef extern from "store/record/record.h" nogil:
    int RECORD_FIXED, FLAG_BORN_V6, FLAG_STORE_V6, CRC_PROPERTY_SIZE, HOST_SIZE
    int FLAG_COMPRESSED, FLAG_COMPRESSION_TYPE

cdef extern from "broker/processors/messages.h" nogil:
    ctypedef struct silo_message:
        const uint8_t *body
        const uint8_t *properties
        const uint8_t *key
        uint32_t body_length, properties_length, total, key_length, no_wait
        int32_t flag
    bint silo_look_through(silo_message *m)
    uint32_t silo_members(const uint8_t *p, uint32_t length, silo_message *out, uint32_t most)

cdef enum:
    ONE_WAY = 2                     # a bit of a command's flag
    DURABLE = 1                     # AckLevel.DURABLE
    MOST_PROPERTIES = 32767
    MOST_TOPIC = 127                # bytes of a topic in a record of version 1
    KEY_PAIR = 42                   # "UNIQ_KEY" 0x01, 32 digits, 0x02
    MOST_MEMBERS = 4096

cdef bytes CRC = b"__CRC32#\x010000000000\x02"


# The fields of a request that are numbers, and whether it is a batch.
cdef struct Fields:
    int32_t queue_id, sys_flag, flag
    int64_t born
    bint is_batch


cdef class Topic:
    """A topic to which messages are sent: its name, the slots of its queues, and its counter."""

    cdef bytes name
    cdef unsigned int[::1] slots
    cdef uint32_t count
    cdef Meter meter

    def __init__(self, bytes name, slots, Meter meter not None):
        self.meter = meter
        self.name = name
        self.slots = array.array("I", slots)
        self.count = len(slots)


cdef class FastSend(FastRequest):
    """The usual sends of all connections.

    `ring` is the broker's, `waiting` what waits for room in it: nothing may pass that by. `added`
    are pairs that every message gets.
    """

    cdef Ring ring
    cdef Answers answers
    cdef object waiting
    cdef dict topics
    cdef bytes added, key_prefix
    cdef uint8_t store_host[20]
    cdef uint32_t store_host_length, max_body
    cdef bint append_crc
    cdef uint8_t *scratch
    cdef silo_message *messages
    cdef uint64_t key_counter
    cdef uint64_t sent
    cdef uint64_t served[3]         # of SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE

    def __cinit__(self):
        # The properties of a message without their escapes; and the messages of a batch.
        self.scratch = <uint8_t *>malloc(MOST_PROPERTIES + 1)
        self.messages = <silo_message *>malloc(MOST_MEMBERS * sizeof(silo_message))
        if self.scratch == NULL or self.messages == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.scratch)
        free(self.messages)

    def __init__(self, Ring ring not None, waiting, bytes added not None,
                 Answers answers not None):
        self.ring = ring
        self.waiting = waiting
        self.added = added
        self.answers = answers
        self.topics = {}
        self.key_prefix = os.urandom(10).hex().upper().encode()

    def bind(self, bytes store_host not None, uint32_t max_body, bint append_crc):
        """Takes over the settings of a session with the store."""
        self.topics.clear()
        memcpy(self.store_host, <const char *>store_host, len(store_host))
        self.store_host_length = len(store_host)
        self.max_body = max_body
        self.append_crc = append_crc
        self.answers.bind(store_host)

    def learn(self, bytes topic not None, slots, Meter meter not None):
        """Serves messages for a topic that may be written. `meter` counts them."""
        if len(topic) <= MOST_TOPIC and len(slots):
            self.topics[topic] = Topic(topic, slots, meter)

    def forget(self):
        """Serves no topic until it is learnt again."""
        self.topics.clear()

    def counted(self):
        codes = (SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE)
        return {codes[i]: self.served[i] for i in range(3)}, self.sent, 0

    # -- requests

    cdef bint take(self, Connection connection, const silo_header *h) except -1:
        cdef const silo_value *value
        cdef Fields fields
        cdef uint32_t count = 1, i
        cdef uint64_t total = 0, bodies = 0
        cdef silo_message whole
        cdef Topic topic
        if self.waiting:
            return False
        value = silo_field(h, "topic" if h.code == SEND_MESSAGE else "b")
        if value == NULL or value.escaped:
            return False
        found = self.topics.get((<const char *>value.at)[:value.length])
        if found is None:
            return False
        topic = <Topic>found
        if not take_fields(h, &fields) or not 0 <= fields.queue_id < <int32_t>topic.count:
            return False
        value = silo_field(h, "properties" if h.code == SEND_MESSAGE else "i")
        if not self.take_properties(value, &whole):
            return False
        if fields.is_batch:
            count = silo_members(h.body, h.body_length, self.messages, MOST_MEMBERS)
        else:
            whole.body, whole.body_length, whole.flag = h.body, h.body_length, fields.flag
            self.messages[0] = whole
        for i in range(count):
            if not self.measure(topic, connection, &self.messages[i]):
                return False
            total += self.messages[i].total
            bodies += self.messages[i].body_length
        if count == 0 or bodies > self.max_body:
            return False
        return self.put(connection, h, topic, &fields, &whole, count, total)

    cdef bint take_properties(self, const silo_value *value, silo_message *whole) noexcept:
        """Takes the pairs of a message, or of a whole batch. False for unusual ones."""
        cdef int64_t size
        memset(whole, 0, sizeof(silo_message))
        if value == NULL:
            return True
        if value.length > MOST_PROPERTIES:
            return False
        size = silo_unescape(value, self.scratch)
        if size < 0:
            return False
        if size and self.scratch[size - 1] != 2:
            self.scratch[size] = 2
            size += 1
        whole.properties = self.scratch
        whole.properties_length = <uint32_t>size
        return silo_look_through(whole)

    cdef uint32_t properties_of(self, const silo_message *m) noexcept:
        """The length of a record's properties: the message's own, and those that are added."""
        return <uint32_t>(m.properties_length + PyBytes_GET_SIZE(self.added)
                          + (KEY_PAIR if m.key == NULL else 0)
                          + (CRC_PROPERTY_SIZE if self.append_crc else 0))

    cdef bint measure(self, Topic topic, Connection connection, silo_message *m) noexcept:
        """Sets the lengths of a message's record. False if it is too long, or empty."""
        cdef uint32_t length = self.properties_of(m)
        if m.body_length == 0 or m.body_length > self.max_body or length > MOST_PROPERTIES:
            return False
        m.total = <uint32_t>(
            RECORD_FIXED - 2 * HOST_SIZE + PyBytes_GET_SIZE(connection.host)
            + self.store_host_length + m.body_length + PyBytes_GET_SIZE(topic.name) + length)
        return True

    cdef bint put(self, Connection connection, const silo_header *h, Topic topic,
                  const Fields *fields, const silo_message *whole, uint32_t count,
                  uint64_t total) except -1:
        """Puts the records into the ring. False if they must wait for room, or never fit."""
        cdef uint64_t length = frame_length(total)
        cdef uint8_t *frame
        cdef uint8_t *p
        cdef uint32_t i
        cdef Reply reply = None
        if length > self.ring.largest:
            return False
        frame = self.ring.reserve(length)
        if frame == NULL:
            return False
        if not h.flag & ONE_WAY:
            reply = Reply.__new__(Reply)
            reply.answers, reply.connection = self.answers, connection
            reply.code, reply.opaque, reply.form = h.code, h.opaque, h.form
            reply.began_ms = coarse_ms()
            reply.queue_id = <uint32_t>fields.queue_id
            reply.count = count
            if whole.key != NULL:
                reply.key_length = whole.key_length
                memcpy(reply.key, whole.key, whole.key_length)
            if count > 1:
                reply.lengths = <uint32_t *>malloc(count * sizeof(uint32_t))
                if reply.lengths == NULL:
                    raise MemoryError
            reply.needs_sync = not whole.no_wait and self.ring.level == DURABLE
            self.ring.expect(reply, length, <uint32_t>total)
            self.ring.watch(reply)
        p = frame + FRAME_HEADER
        for i in range(count):
            if count > 1 and reply is not None:
                reply.lengths[i] = self.messages[i].total
            p = self.encode(p, connection, topic, fields, &self.messages[i])
        self.ring.sent_us = <uint32_t>silo_realtime_us()
        self.ring.seal(frame, length, <uint32_t>total, count, topic.slots[fields.queue_id],
                       not whole.no_wait)
        self.ring.publish(frame, length)
        self.served[0 if h.code == SEND_MESSAGE else 1 if h.code == SEND_MESSAGE_V2 else 2] += 1
        self.sent += count
        topic.meter.count(count, total)
        return True

    cdef uint8_t *encode(self, uint8_t *r, Connection connection, Topic topic,
                         const Fields *fields, const silo_message *m) noexcept:
        """Writes a record, as `Encoder.encode` of a producer does. Returns its end."""
        cdef uint8_t *p
        cdef silo_new_record n
        n.body, n.body_length = m.body, m.body_length
        n.topic = <const uint8_t *>PyBytes_AS_STRING(topic.name)
        n.topic_length = <uint32_t>PyBytes_GET_SIZE(topic.name)
        n.born_host = <const uint8_t *>PyBytes_AS_STRING(connection.host)
        n.born_host_length = <uint32_t>PyBytes_GET_SIZE(connection.host)
        n.store_host, n.store_host_length = self.store_host, self.store_host_length
        n.total, n.queue_id = m.total, <uint32_t>fields.queue_id
        n.flag, n.sys_flag = <uint32_t>m.flag, <uint32_t>fields.sys_flag
        if n.born_host_length > HOST_SIZE:
            n.sys_flag |= FLAG_BORN_V6
        if n.store_host_length > HOST_SIZE:
            n.sys_flag |= FLAG_STORE_V6
        n.born_ms = fields.born
        n.properties_length = self.properties_of(m)
        p = silo_begin_record(r, &n)
        if m.properties_length:
            memcpy(p, m.properties, m.properties_length)
            p += m.properties_length
        if m.key == NULL:
            p = self.put_key(p)
        memcpy(p, PyBytes_AS_STRING(self.added), PyBytes_GET_SIZE(self.added))
        p += PyBytes_GET_SIZE(self.added)
        if self.append_crc:
            memcpy(p, PyBytes_AS_STRING(CRC), CRC_PROPERTY_SIZE)
            p += CRC_PROPERTY_SIZE
        return p

    cdef uint8_t *put_key(self, uint8_t *p) noexcept:
        """Writes a new UNIQ_KEY, for clients that make none. Returns the pair's end."""
        cdef char digits[16]
        self.key_counter += 1
        snprintf(digits, 16, "%012llX", <unsigned long long>(self.key_counter & 0xFFFFFFFFFFFF))
        memcpy(p, "UNIQ_KEY\x01", 9)
        memcpy(p + 9, PyBytes_AS_STRING(self.key_prefix), 20)
        memcpy(p + 29, digits, 12)
        p[41] = 2
        return p + KEY_PAIR


cdef bint take_fields(const silo_header *h, Fields *out) noexcept:
    """Takes the numbers of a request. False for those that need a decision."""
    cdef bint long_names = h.code == SEND_MESSAGE
    cdef const silo_value *value
    cdef int32_t reconsumed = 0
    value = silo_field(h, "queueId" if long_names else "e")
    if value == NULL or not silo_number32(value, &out.queue_id):
        return False
    value = silo_field(h, "sysFlag" if long_names else "f")
    if value == NULL or not silo_number32(value, &out.sys_flag):
        return False
    if out.sys_flag & ~(FLAG_COMPRESSED | FLAG_COMPRESSION_TYPE):
        return False
    value = silo_field(h, "bornTimestamp" if long_names else "g")
    if value == NULL or not silo_number(value, &out.born) or out.born <= 0:
        return False
    value = silo_field(h, "flag" if long_names else "h")
    if value == NULL or not silo_number32(value, &out.flag):
        return False
    value = silo_field(h, "reconsumeTimes" if long_names else "j")
    if value != NULL and (not silo_number32(value, &reconsumed) or reconsumed):
        return False
    value = silo_field(h, "batch" if long_names else "m")
    out.is_batch = h.code == SEND_BATCH_MESSAGE
    if value != NULL and not out.is_batch:
        out.is_batch = silo_is(value, "true") or silo_is(value, "1")
        return out.is_batch or silo_is(value, "false") or silo_is(value, "0")
    return True
