# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`MessageView`, a message as a consumer gets it.

A view holds the place of its record in a mapped file. It parses the record when a value is first
asked for. It never reads outside of the record, whatever the record's bytes say.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from ...store.errors import BadBody, Corrupt, IllegalArgument
from ...store.record.compression import Undecodable, decompress
from ...store.record.ids import Host
from ...store.names import DLQ_PREFIX, RETRY_PREFIX
from ...store.record.properties import RETRY_TOPIC, decode_properties, light_queues
from ...store.record.format import decode_record
from .. import arguments


@cython.final
@cython.no_gc  # refers to a mapping or bytes, and to a tuple of plain values: to no cycle
cdef class Memory:
    """Bytes of the log from offset `base` on, which hold messages: a mapped file, or a copy of
    one record. Errors name `path`. `queue` is the queue through which they are read: (topic, queue
    id), or None if that is the one in each record.
    """

    def __init__(self, source, int64_t base=0, str path="", tuple queue=None):
        self.view = source
        self.source = source
        self.base = base
        self.end = base + self.view.shape[0]
        self.path = path
        self.queue = queue


cdef Memory hold(object record, tuple queue):
    """The bytes of one record in memory. Raises IllegalType, IllegalArgument."""
    if type(record) is Memory:
        return record
    if isinstance(record, str):
        arguments.refuse_type("record", record, "bytes-like")
    try:
        return Memory(record, queue=queue)
    except Exception:
        # Raises, or it lies in pieces.
        return Memory(arguments.body("record", record), queue=queue)


@cython.final
@cython.no_gc  # refers to its Memory only
@cython.freelist(1024)
cdef class MessageView:
    """One message of a queue (RocketMQ: `MessageExt`). The properties say for each value its type,
    its unit, and the field of the record (`store/record/format.py`) or the property it comes from.
    Text that is not UTF-8 has U+FFFD in its place.

    A view copies nothing until a value is asked for. It keeps its commit-log file mapped, even when
    the store has removed that file: the message stays readable, and the file's disk space stays in
    use. To keep a message for long, keep a copy (`copy.copy`, or a pickled one). A damaged record
    raises Corrupt from the property that is asked for.

    Made of `record`, the bytes of one whole record, and its `queue_offset`; in another queue than
    the record's own also of that `queue`. Raises IllegalArgument for no bytes at all, IllegalType
    for anything that is not bytes-like, and for a queue that is no tuple.
    """

    def __init__(self, record, queue_offset, queue=None):
        if queue is not None and type(queue) is not tuple:
            arguments.refuse_type("queue", queue, "a tuple of topic and queue id")
        self.memory = hold(record, queue)
        if self.memory.view.shape[0] == 0:
            raise IllegalArgument("a record has bytes")
        self.at = &self.memory.view[0]
        self.length = <uint32_t>min(self.memory.view.shape[0], <Py_ssize_t>0xFFFFFFFF)
        self.queue_index = arguments.whole("queue_offset", queue_offset, -(2**63))

    cdef int parse(self) except -1:
        """Finds the parts of the record, which lie within its `length` bytes, at the first call."""
        cdef silo_record m
        if self.m.bytes != NULL:
            return 0
        if silo_parse_record(self.at, self.length, &m) != RECORD_OK or m.total != self.length:
            raise Corrupt(
                self.memory.path, self.place,
                f"the {self.length} bytes here, to which queue offset {self.queue_offset} leads, "
                "are no whole record",
            )
        self.m = m
        return 0

    cdef str find(self, int which):
        cdef silo_properties p
        cdef silo_text found
        self.parse()
        silo_find_properties(self.at + self.m.properties_at, self.m.properties_length, &p)
        found = p.tags if which == 0 else p.keys if which == 1 else p.unique_key
        if found.at == NULL:
            return None
        return PyUnicode_DecodeUTF8(<char *>found.at, found.length, "replace")

    def check(self):
        """Raises Corrupt unless the bytes are a whole record of this queue offset, its body matches
        BODYCRC, and its record checksum matches if it has one. Nothing else in this class checks
        them, because that would cost more than reading. A message of light queues (LMQ) has an
        offset in each of them.
        """
        try:
            record = decode_record(self.record, 0, check_crc=True)
        except Corrupt as error:
            where = self.place + error.offset
            raise Corrupt(self.memory.path, where, error.why) from None
        offsets = {record.queue_offset, *light_queues(record.properties).values()}
        if record.total_size != self.length or self.queue_offset not in offsets:
            raise Corrupt(
                self.memory.path,
                record.physical_offset,
                f"queue offset {self.queue_offset} of the queue leads to {self.length} bytes,"
                f" the record has {record.total_size} and queue offset {record.queue_offset}",
            )

    @property
    def queue_offset(self):
        """int: the message's index in its queue, from the queue entry that led to it. The record's
        `queueOffset` is the same, unless the record is damaged (`check` compares them).
        """
        return self.queue_index

    @property
    def queue(self):
        """tuple[str, int]: the queue through which the message was read, and in which
        `queue_offset` counts: (`topic`, `queue_id`), or a light queue (LMQ) of the message and 0.
        """
        if self.memory.queue is not None:
            return self.memory.queue
        return self.topic, self.queue_id

    @property
    def place(self):
        """int: the commit-log offset (bytes) at which the record was found; 0 for a message that
        was made of bytes. `physical_offset` is what the record itself says.
        """
        return self.memory.base + (self.at - &self.memory.view[0])

    @property
    def record(self):
        """bytes: the whole record as it is in the commit log (`store/record/format.py`).
        A copy.
        """
        return PyBytes_FromStringAndSize(<char *>self.at, self.length)

    @property
    def body(self):
        """bytes: the body as the producer's caller gave it. If the producer compressed it
        (`sys_flag` & 1), each access decompresses it anew, and raises BadBody if that fails. A
        copy.
        """
        cdef bytes raw = self.raw_body
        if not self.m.flags & FLAG_COMPRESSED:
            return raw
        try:
            return decompress(raw, self.m.flags)
        except Undecodable as error:
            raise BadBody(
                self.memory.path, self.place,
                f"{error} (topic {self.topic}, queue {self.queue_id}, queue offset "
                f"{self.queue_offset}); raw_body has its bytes",
            ) from error

    @property
    def raw_body(self):
        """bytes: the body as it is in the log; a compressed one stays compressed. A copy."""
        self.parse()
        return PyBytes_FromStringAndSize(<char *>self.at + self.m.body_at, self.m.body_length)

    @property
    def topic(self):
        """str: the topic whose queue holds the message. Of a message that was sent back this is
        `%RETRY%group` or `%DLQ%group`; see `origin_topic`.
        """
        self.parse()
        return PyUnicode_DecodeUTF8(
            <char *>self.at + self.m.topic_at, self.m.topic_length, "replace"
        )

    @property
    def origin_topic(self):
        """str: the topic that the message was first sent to. The property RETRY_TOPIC if the
        message was sent back or is a dead letter, otherwise `topic`.
        """
        cdef str topic = self.topic
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return self.properties.get(RETRY_TOPIC, topic)
        return topic

    @property
    def properties(self):
        """dict[str, str]: all properties, with TAGS, KEYS and UNIQ_KEY among them; of a name that
        occurs twice the last value. Each access makes a new dict.
        """
        self.parse()
        return decode_properties(PyBytes_FromStringAndSize(
            <char *>self.at + self.m.properties_at, self.m.properties_length), "replace")

    @property
    def tags(self):
        """str | None: the property TAGS; None without one."""
        return self.find(0)

    @property
    def keys(self):
        """list[str]: the property KEYS, split at spaces; empty without one."""
        cdef str text = self.find(1)
        return [] if text is None else [key for key in text.split(" ") if key]

    @property
    def message_id(self):
        """str | None: the property UNIQ_KEY, the id that the producer gave the message (RocketMQ's
        `msgId`). None without one.
        """
        return self.find(2)

    @property
    def offset_message_id(self):
        """str: the store's host and `physical_offset` in upper-case hex (RocketMQ's `offsetMsgId`):
        32 digits with an IPv4 host, 56 with IPv6. Derived, not stored.
        """
        self.parse()
        cdef bytes host = store_host_of(&self.m)
        cdef bytes offset = PyBytes_FromStringAndSize(<char *>self.at + RECORD_PHYSICAL_OFFSET, 8)
        return (host + offset).hex().upper()

    @property
    def queue_id(self):
        """int: the queue of the topic, from 0 on (the record's `queueId`)."""
        self.parse()
        return <int32_t>silo_be32(self.at + RECORD_QUEUE_ID)

    @property
    def flag(self):
        """int (signed, 32 bits): a number of the application's own (the record's `flag`)."""
        self.parse()
        return <int32_t>silo_be32(self.at + RECORD_FLAG)

    @property
    def physical_offset(self):
        """int: the record's address in the commit log, in bytes, as the record says
        (`physicalOffset`).
        """
        self.parse()
        return <int64_t>silo_be64(self.at + RECORD_PHYSICAL_OFFSET)

    @property
    def sys_flag(self):
        """int (32 bits): what the record and its body are, bit by bit (`SYS_*` in
        `store/record/format.py`; the record's `sysFlag`). As it is stored: bit 0 says what
        `raw_body` is. RocketMQ's decoder clears that bit since 5.x, and keeps it in 4.9.
        """
        self.parse()
        return <int32_t>self.m.flags

    @property
    def born_timestamp(self):
        """int: when the producer made the message, epoch ms by its own clock (`bornTimestamp`)."""
        self.parse()
        return <int64_t>silo_be64(self.at + RECORD_BORN_TIMESTAMP)

    @property
    def born_host(self):
        """Host: address and port of the producer (`bornHost`); IPv6 if `sys_flag` & 0x10. Its str
        is ADDRESS:PORT or [IPV6]:PORT.
        """
        self.parse()
        return Host.unpack(PyBytes_FromStringAndSize(
            <char *>self.at + RECORD_BORN_HOST, silo_host_size(self.m.flags & FLAG_BORN_V6)))

    @property
    def store_timestamp(self):
        """int: when the store appended the message, epoch ms by the store's clock, which never
        steps back (`storeTimestamp`).
        """
        self.parse()
        return <int64_t>silo_be64(self.at + self.m.time_at)

    @property
    def store_host(self):
        """Host: address and port of the store (`storeHost`); IPv6 if `sys_flag` & 0x20."""
        self.parse()
        return Host.unpack(store_host_of(&self.m))

    @property
    def reconsume_times(self):
        """int: how often the message was sent back to its consumer group (`reconsumeTimes`); 0 for
        a message as its producer sent it.
        """
        self.parse()
        return <int32_t>silo_reconsume_times(&self.m)

    @property
    def size(self):
        """int: bytes of the whole record (`totalSize`)."""
        return self.length

    def __reduce__(self):
        return MessageView, (self.record, self.queue_offset, self.memory.queue)

    def __repr__(self):
        try:
            return (
                f"MessageView({self.topic}[{self.queue_id}]@{self.queue_offset}, "
                f"{self.m.body_length} bytes)"
            )
        except Corrupt as error:
            return f"MessageView(@{self.queue_offset}, {error})"


cdef bytes store_host_of(const silo_record *m):
    return PyBytes_FromStringAndSize(
        <const char *>silo_store_host(m), silo_host_size(m.flags & FLAG_STORE_V6))


cdef MessageView view_of(Memory memory, int64_t at, int64_t size, int64_t queue_offset):
    """A view of the record of `size` bytes at log offset `at`, which lie within `memory`."""
    cdef MessageView view = MessageView.__new__(MessageView)
    view.memory = memory
    view.at = &memory.view[at - memory.base]
    view.length = <uint32_t>size
    view.queue_index = queue_offset
    return view
