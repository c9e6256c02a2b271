# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages, the routes of topics, and a message's parts as the encoder takes them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr

import array
import random

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from .message_properties import encode_extra, join_keys

cdef extern from "store/record/properties.h" nogil:
    uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length)

cdef bytes EMPTY = b""


cdef const uint8_t *text(object value, Py_ssize_t *length, str what) except NULL:
    """The UTF-8 bytes of a str. Raises IllegalMessage if it holds one of RocketMQ's separators,
    TypeError if it is no str.
    """
    cdef const char *p
    if type(value) is not str:
        raise TypeError(f"{what} must be str, not {type(value).__name__}")
    p = PyUnicode_AsUTF8AndSize(value, length)
    if memchr(p, 1, length[0]) != NULL or memchr(p, 2, length[0]) != NULL:
        raise IllegalMessage(
            PutMessageStatus.MESSAGE_ILLEGAL,
            f"{what} {value!r} holds a control character (1 or 2) that RocketMQ uses as a "
            "separator",
        )
    return <const uint8_t *>p


cdef class Message:
    """One message of a batch: `Producer.send_batch` takes such messages.

    - `body`: bytes, or a str that becomes UTF-8. The attribute is always bytes.
    - `tags`: a str.
    - `keys`: a str with spaces between the keys, or an iterable of keys.
    - `properties`: a mapping of str to str, neither of them empty.
    - `flag`: 32 bits for the application's own use.
    - `born_timestamp`: epoch ms, by default the time of sending. The attribute is then -1.

    All of these are attributes. A message does not change and may be sent several times.

    Raises IllegalMessage for keys and properties that a record cannot hold: a reserved name, an
    empty name or value, RocketMQ's separators (the characters 1 and 2), a key with a space. Tags
    and lengths are checked when the message is sent.
    """

    def __init__(self, body, tags=None, keys=None, properties=None, uint32_t flag=0,
                 born_timestamp=None):
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        self.tags = tags
        self.keys = keys
        self.properties = properties
        self.flag = flag
        self.born_timestamp = -1 if born_timestamp is None else born_timestamp
        self.keys_text = keys if keys is None or type(keys) is str else join_keys(keys)
        self.extra = EMPTY if not properties else encode_extra(properties, wait_store=True)

    def __repr__(self):
        return f"Message(body={len(self.body)} bytes, tags={self.tags!r}, keys={self.keys!r})"


cdef class Route:
    """Where messages of a topic go: the topic's name, and the slot of each of its queues in the
    store's topic table.
    """

    def __init__(self, str topic, tuple slots):
        self.topic = topic
        self.slots = slots
        self.queue_count = len(slots)
        # As in RocketMQ's clients: many short-lived producers must not all begin with the same
        # queue.
        self.turn = random.randrange(self.queue_count)
        self.slot_array = array.array("I", slots)
        self.slot_of = &self.slot_array[0]
        self.encoded = topic.encode()
        self.name = <const uint8_t *>PyBytes_AS_STRING(self.encoded)
        self.name_length = len(self.encoded)
        self.wide = self.name_length > 127

    cdef uint32_t choose(self, object queue, object shard_key) except? 0xFFFFFFFF:
        """The id of the queue to send to: `queue`, or by the hash of `shard_key`, or the next one
        in turn. The hash is the absolute value of Java's String.hashCode (0 for -2^31), modulo the
        number of queues. Raises IllegalMessage for a queue that the topic does not have.
        """
        cdef Py_ssize_t length
        cdef const uint8_t *key
        cdef uint32_t h
        if queue is not None:
            if not 0 <= queue < self.queue_count:
                raise IllegalMessage(
                    PutMessageStatus.MESSAGE_ILLEGAL,
                    f"queue {queue} of topic {self.topic}: it has queues 0 to "
                    f"{self.queue_count - 1}",
                )
            return queue
        if shard_key is not None:
            key = text(shard_key, &length, "shard_key")
            h = silo_java_hash(0, key, <uint32_t>length)
            if h >= 0x80000000u:
                h = 0 if h == 0x80000000u else 0 - h
            return h % self.queue_count
        self.turn = self.turn + 1 if self.turn + 1 < self.queue_count else 0
        return self.turn


cdef int take(object item, Parts *m) except -1:
    """Sets `m` to the parts of a batch's message: bytes, or a Message. The batch keeps them alive.
    Raises TypeError for anything else, IllegalMessage for separators in tags or keys.
    """
    cdef Message message
    if type(item) is bytes:
        m.body = <const uint8_t *>PyBytes_AS_STRING(item)
        m.body_length = PyBytes_GET_SIZE(item)
        m.tags_length = m.keys_length = m.extra_length = 0
        m.tags = m.keys = m.extra = m.body
        m.flag = 0
        m.born = -1
    elif type(item) is Message:
        message = <Message>item
        m.body = <const uint8_t *>PyBytes_AS_STRING(message.body)
        m.body_length = PyBytes_GET_SIZE(message.body)
        m.tags_length = m.keys_length = 0
        m.tags = m.keys = m.body
        if message.tags is not None:
            m.tags = text(message.tags, &m.tags_length, "tags")
        if message.keys_text is not None:
            m.keys = text(message.keys_text, &m.keys_length, "keys")
        m.extra = <const uint8_t *>PyBytes_AS_STRING(message.extra)
        m.extra_length = PyBytes_GET_SIZE(message.extra)
        m.flag = message.flag
        m.born = message.born_timestamp
    else:
        raise TypeError(f"a batch holds bytes or Message objects, not {type(item).__name__}")
    return 0
