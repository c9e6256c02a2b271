# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages, the routes of topics, and a message's parts as the encoder takes them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr

import array
import random

from ...store.errors import IllegalArgument, IllegalMessage
from ...store.status import PutMessageStatus
from .. import arguments
from .message_properties import MOST_PROPERTIES, encode_extra, join_keys, plan_light_queues

cdef extern from "Python.h":
    # Declared without Cython's check of the result: a lone surrogate gets an error of our own.
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *length)

cdef extern from "store/record/properties.h" nogil:
    uint32_t silo_java_hash(uint32_t h, const uint8_t *p, uint32_t length)

cdef bytes EMPTY = b""


cdef const uint8_t *text(str value, Py_ssize_t *length, str what) except NULL:
    """The UTF-8 bytes of a plain str. Raises IllegalMessage if it holds one of RocketMQ's
    separators, IllegalArgument if it has no UTF-8 form.
    """
    cdef const char *p = PyUnicode_AsUTF8AndSize(value, length)
    if p == NULL:
        PyErr_Clear()
        arguments.text(what, value)
        raise MemoryError
    if memchr(p, 1, length[0]) != NULL or memchr(p, 2, length[0]) != NULL:
        raise IllegalMessage(
            PutMessageStatus.MESSAGE_ILLEGAL,
            f"{what} {arguments.shown(value)} holds a control character (1 or 2) that RocketMQ "
            "uses as a separator",
        )
    return <const uint8_t *>p


cdef int64_t unusual_number(object value, str what, int64_t least, int64_t most) except? -1:
    """`number` for a value that is no int, or out of range."""
    return arguments.whole(what, value, least, most)


cdef class Message:
    """One message: `Producer.send_batch` takes several, and `Producer.send` takes one.

    - `body`: bytes-like, or a str that becomes UTF-8. The attribute is always bytes.
    - `tags`: a str.
    - `keys`: a str with spaces between the keys, or an iterable of keys. The attribute is then a
      tuple.
    - `properties`: a mapping of str to str, neither of them empty. The attribute is a copy.
    - `flag`: a number of the application's own, signed, 32 bits.
    - `born_timestamp`: epoch ms, by default the time of sending. The attribute is then -1.

    All of these are attributes. A message does not change and may be sent several times.

    Raises IllegalType and IllegalArgument, and IllegalMessage for keys and properties that a record
    cannot hold: a reserved name, an empty name or value, RocketMQ's separators (the characters 1
    and 2), a key with a space. Separators in tags, and lengths, are checked when the message is
    sent.
    """

    def __init__(self, body, tags=None, keys=None, properties=None, flag=0, born_timestamp=None):
        self.body = body if type(body) is bytes else arguments.body("body", body)
        self.tags = None if tags is None else arguments.text("tags", tags)
        self.keys_text = self.keys = None
        if isinstance(keys, str):
            self.keys_text = self.keys = arguments.text("keys", keys)
        elif keys is not None:
            self.keys = tuple(arguments.several("keys", keys, MOST_PROPERTIES))
            self.keys_text = join_keys(self.keys)
        self.properties = None
        self.extra = self.stored = EMPTY
        self.light = None
        if properties is not None:
            self.properties = arguments.mapping("properties", properties, MOST_PROPERTIES)
            self.extra = self.stored = encode_extra(self.properties, wait_store=True, light=True)
            self.light = plan_light_queues(self.properties)
            if self.light is not None:
                self.stored = self.extra + self.light.pair
        self.flag = <int32_t>number(flag, "flag", -2**31, 2**31 - 1)
        self.born_timestamp = -1
        if born_timestamp is not None:
            self.born_timestamp = number(born_timestamp, "born_timestamp", 0, 2**63 - 1)

    def __reduce__(self):
        born = None if self.born_timestamp < 0 else self.born_timestamp
        return Message, (self.body, self.tags, self.keys, self.properties, self.flag, born)

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
        cdef int64_t wanted
        if queue is not None:
            wanted = number(queue, "queue", -2**63, 2**63 - 1)
            if not 0 <= wanted < self.queue_count:
                raise IllegalMessage(
                    PutMessageStatus.MESSAGE_ILLEGAL,
                    f"queue {wanted} of topic {self.topic}: it has queues 0 to "
                    f"{self.queue_count - 1}",
                )
            return <uint32_t>wanted
        if shard_key is not None:
            shard_key = plain_text(shard_key, "shard_key")
            key = text(shard_key, &length, "shard_key")
            h = silo_java_hash(0, key, <uint32_t>length)
            if h >= 0x80000000u:
                h = 0 if h == 0x80000000u else 0 - h
            return h % self.queue_count
        self.turn = self.turn + 1 if self.turn + 1 < self.queue_count else 0
        return self.turn


cdef int take(object item, Parts *m) except -1:
    """Sets `m` to the parts of a batch's message: bytes, or a Message. The batch keeps them alive.
    Raises IllegalMessage for separators in tags or keys.
    """
    cdef Message message
    if type(item) is bytes:
        m.body = <const uint8_t *>PyBytes_AS_STRING(item)
        m.body_length = PyBytes_GET_SIZE(item)
        m.tags_length = m.keys_length = m.extra_length = 0
        m.tags = m.keys = m.extra = m.body
        m.flag = 0
        m.born = -1
        m.light = False
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
        m.extra = <const uint8_t *>PyBytes_AS_STRING(message.stored)
        m.extra_length = PyBytes_GET_SIZE(message.stored)
        m.flag = message.flag
        m.born = message.born_timestamp
        m.light = message.light is not None
    else:
        raise AssertionError("a batch was turned into bytes and messages before")
    return 0


cdef str plain_text(object value, str what):
    """A plain str. Raises IllegalType, IllegalArgument."""
    return <str>value if type(value) is str else arguments.text(what, value)


cdef str plain_keys(object keys):
    """Keys as the property KEYS has them. Raises as `join_keys`."""
    return plain_text(keys, "keys") if isinstance(keys, str) else join_keys(keys)


cdef bint truth(object value, str what) except -1:
    """True or False. Raises IllegalType for anything else."""
    return True if value is True else arguments.switch(what, value)


cdef list in_batch(object messages, Py_ssize_t most):
    """A batch's messages, each bytes or a Message. A copy: another thread may change the caller's
    list while this one waits for space. Raises IllegalMessage for more than `most`, IllegalType.
    """
    cdef list items = list(messages) if type(messages) is list else arguments.several(
        "messages", messages, most)
    cdef Py_ssize_t i
    for i in range(len(items)):
        if type(items[i]) is not bytes and type(items[i]) is not Message:
            items[i] = arguments.body("a message of the batch", items[i])
    return items


cdef int check_alone(object tags, object keys, object properties, object flag,
                     object born) except -1:
    """Raises IllegalArgument for anything that is given besides a Message, which has its own."""
    if tags is None and keys is None and properties is None and born is None and (
            type(flag) is int and flag == 0):
        return 0
    raise IllegalArgument(
        "tags, keys, properties, flag and born_timestamp are those of the Message")
