# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The producer's kernel: one Python call encodes a message, in its final form, straight into the session's ring.

`RingProducer` keeps the ring's positions and the futures of messages that were not answered yet; connecting, opening
topics and reconnecting are `producer.py`'s. Every method runs under the interpreter's lock except while it waits, so
one producer may be shared by threads: a message is encoded and published as one step, in the order of the calls.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

import array
import collections
import os
import sys

from ..store.errors import IllegalMessage
from ..store.status import PutMessageStatus
from .errors import SendTimeout, StoreClosed
from .outgoing import encode_extra, join_keys
from .result import SendResult

cdef uint64_t ONE = 1
cdef bytes EMPTY = b""
# Two hexadecimal digits for each byte value.
cdef bytes HEX = "".join(f"{i:02X}" for i in range(256)).encode()
cdef const char *HEX_DIGITS = HEX
cdef const char *CRC_PROPERTY = "__CRC32#\x010000000000\x02"


cdef inline const uint8_t *text(object value, Py_ssize_t *length, str what) except NULL:
    """The UTF-8 bytes of a str, which must not hold RocketMQ's separators."""
    cdef const char *p
    if type(value) is not str:
        raise TypeError(f"{what} must be str, not {type(value).__name__}")
    p = PyUnicode_AsUTF8AndSize(value, length)
    if memchr(p, 1, length[0]) != NULL or memchr(p, 2, length[0]) != NULL:
        raise IllegalMessage(
            PutMessageStatus.MESSAGE_ILLEGAL,
            f"{what} {value!r} holds a control character (1 or 2) that RocketMQ uses as a separator",
        )
    return <const uint8_t *>p


cdef class Message:
    """A message to send: body (bytes, or str encoded as UTF-8) with its tags, keys and properties.

    `keys` is a str with spaces between keys, or a sequence of keys; `properties` maps str to str;
    `born_timestamp` is epoch ms, by default the time of sending.
    """

    def __init__(self, body, tags=None, keys=None, properties=None, uint32_t flag=0, born_timestamp=None):
        self.body = body.encode() if isinstance(body, str) else bytes(body)
        self.tags = tags
        self.keys = keys
        self.properties = properties
        self.flag = flag
        self.born_timestamp = -1 if born_timestamp is None else born_timestamp
        self.keys_text = keys if keys is None or type(keys) is str else join_keys(keys)
        self.extra = EMPTY if not properties else encode_extra(properties, True)

    def __repr__(self):
        return f"Message(body={len(self.body)} bytes, tags={self.tags!r}, keys={self.keys!r})"


cdef class Route:
    """Where messages of a topic go: the slots of its queues, taken in turn unless the caller chooses."""

    def __init__(self, str topic, tuple slots):
        self.topic = topic
        self.slots = slots
        self.queue_count = len(slots)
        self.slot_array = array.array("I", slots)
        self.slot_of = &self.slot_array[0]
        self.encoded = topic.encode()
        self.name = <const uint8_t *>PyBytes_AS_STRING(self.encoded)
        self.name_length = len(self.encoded)
        self.wide = self.name_length > 127

    cdef uint32_t choose(self, object queue, object shard_key) except? 0xFFFFFFFF:
        cdef Py_ssize_t length
        cdef const uint8_t *key
        cdef uint32_t h
        if queue is not None:
            if not 0 <= queue < self.queue_count:
                raise IllegalMessage(
                    PutMessageStatus.MESSAGE_ILLEGAL,
                    f"queue {queue} of topic {self.topic}: it has queues 0 to {self.queue_count - 1}",
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


cdef class SendFuture:
    """What will become of one `send_async` (or batch). Resolved in the order of sending; usable with `await`.

    `result` helps along by looking at the ring itself, so no thread is needed for it. Callbacks and `await` are
    served by the producer's thread.
    """

    def done(self):
        """Whether there is a result or an error. Looks at the ring first."""
        if self.state < F_DONE and self.producer is not None:
            self.producer.reap()
        return self.state >= F_DONE

    def result(self, timeout=None):
        """The SendResult; waits for it up to `timeout` seconds (by default the producer's).

        Raises SendTimeout (the message may still be stored later), StoreClosed, or IllegalMessage when the store
        refused the message.
        """
        if self.state < F_DONE:
            self.producer.wait_for(self, self.producer.send_timeout_s if timeout is None else timeout)
        if self.state == F_FAILED:
            raise self.error
        return self.make_result()

    def exception(self, timeout=None):
        """The error that `result` would raise, or None."""
        try:
            self.result(timeout)
        except (IllegalMessage, StoreClosed) as error:
            return error
        return None

    def add_done_callback(self, callback):
        """Calls `callback(future)` once: at once if it is done, else from the producer's thread."""
        if self.state >= F_DONE:
            callback(self)
            return
        if self.callbacks is None:
            self.callbacks = []
            self.producer.waiting += 1
        self.callbacks.append(callback)
        self.producer.serve_callbacks()

    def __await__(self):
        import asyncio
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def resolve(_):
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        self.add_done_callback(resolve)
        yield from done.__await__()
        return self.result(0)

    cdef object make_result(self):
        return SendResult(
            PutMessageStatus(self.outcome.status), self.topic, self.queue_id, self.outcome.queue_offset,
            self.outcome.physical_offset, self.outcome.store_timestamp, self.count,
            (self.key_prefix, self.key_time, self.key_counter, self.key_wrap), self.lengths,
            self.producer.store_host[:self.producer.store_host_length],
        )


cdef class RingProducer:
    """The ring's side of a producer. `config` holds what the registry said of the store (see `client/session.py`)."""

    def __init__(self, config, *, double send_timeout_s):
        cdef bytes host
        self.routes = {}
        self.send_timeout_s = send_timeout_s
        self.configure(config)
        self.key_prefix = (config.born_address[:4] + (os.getpid() & 0xFFFF).to_bytes(2, "big")
                           + os.urandom(4)).hex().upper().encode()
        assert len(self.key_prefix) == PREFIX
        memcpy(self.key_text, <const char *>self.key_prefix, PREFIX)
        self.key_epoch_ms = config.key_epoch_ms
        self.closed = None

    def configure(self, config):
        """Takes over what may differ between two runs of the store."""
        self.store_host_length = len(config.store_host)
        memcpy(self.store_host, <const char *><bytes>config.store_host, self.store_host_length)
        self.born_host_length = len(config.born_host)
        memcpy(self.born_host, <const char *><bytes>config.born_host, self.born_host_length)
        self.sys_flag = ((FLAG_BORN_V6 if self.born_host_length == 20 else 0)
                         | (FLAG_STORE_V6 if self.store_host_length == 20 else 0))
        self.max_body = config.max_message_size
        self.sync_flush = config.sync_flush
        self.append_crc = config.append_crc
        self.spin_ns = config.producer_spin_us * 1000
        self.sync_timeout_ns = config.sync_flush_timeout_ms * 1000000

    def bind(self, unsigned char[::1] ring not None, uint64_t capacity, const unsigned char[::1] control not None,
             int bell):
        """Starts a session: an empty ring in `ring`, the store's control block, the eventfd that wakes append."""
        self.ring_view = ring
        self.control_view = control
        self.ring = &ring[0]
        self.control = &control[0]
        self.capacity = capacity
        self.largest = capacity / 2 / 64 * 64
        self.head = self.tail = self.at = 0
        self.bell = bell
        self.routes.clear()

    # -- time and unique keys

    cdef void refresh_time(self) noexcept:
        """Now, and the eight digits of a unique key that count ms; neither steps back."""
        cdef int64_t now = silo_realtime_ms()
        cdef uint32_t time
        cdef int i
        if now > self.now_ms:
            self.now_ms = now
        time = <uint32_t>(self.now_ms - self.key_epoch_ms)
        if time > self.key_time:
            self.key_time = time
            self.key_wrap = self.key_counter
            for i in range(4):
                memcpy(self.key_text + PREFIX + 2 * i, HEX_DIGITS + 2 * (time >> (24 - 8 * i) & 255), 2)

    cdef void fill_key(self) noexcept:
        """The next unique key: prefix, time, counter. When 65,536 keys share one ms, the time is moved on."""
        cdef int i
        self.key_counter += 1
        if self.key_counter == self.key_wrap:
            self.key_time += 1
            for i in range(4):
                memcpy(self.key_text + PREFIX + 2 * i,
                       HEX_DIGITS + 2 * (self.key_time >> (24 - 8 * i) & 255), 2)
        memcpy(self.key_text + PREFIX + 8, HEX_DIGITS + 2 * (self.key_counter >> 8), 2)
        memcpy(self.key_text + PREFIX + 10, HEX_DIGITS + 2 * (self.key_counter & 255), 2)

    # -- encoding

    cdef Route route(self, object topic):
        cdef object found = self.routes.get(topic)
        if found is None:
            if self.closed is not None:
                raise self.closed
            found = self.open_topic(topic)
        return <Route>found

    cdef int measure(self, Route route, Parts *m) except -1:
        """Checks the limits; the record's total length."""
        cdef Py_ssize_t length = UNIQUE_KEY_PAIR + m.extra_length
        if m.tags_length:
            length += m.tags_length + 6
        if m.keys_length:
            length += m.keys_length + 6
        if self.append_crc:
            length += CRC_PROPERTY_SIZE
        if m.body_length > self.max_body:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the body has {m.body_length} bytes, the store takes {self.max_body} (max_message_size)",
            )
        if length > MAX_PROPERTIES:
            raise IllegalMessage(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"the properties take {length} bytes, RocketMQ's records hold {MAX_PROPERTIES}",
            )
        m.properties_length = <uint32_t>length
        m.total = <uint32_t>(RECORD_FIXED - 16 + self.born_host_length + self.store_host_length + route.wide
                             + m.body_length + route.name_length + length)
        return 0

    cdef uint8_t *encode(self, uint8_t *r, Route route, uint32_t queue_id, const Parts *m) noexcept:
        """Writes one record at `r`; what append fills in (offsets, store time) is zero. Returns its end."""
        cdef uint8_t *p = r
        silo_put32(p, m.total)
        silo_put32(p + 4, RECORD_MAGIC_V2 if route.wide else RECORD_MAGIC_V1)
        silo_put32(p + 8, silo_crc32(0, m.body, m.body_length) & 0x7FFFFFFF)
        silo_put32(p + 12, queue_id)
        silo_put32(p + 16, m.flag)
        memset(p + 20, 0, 16)
        silo_put32(p + 36, self.sys_flag)
        silo_put64(p + 40, m.born if m.born >= 0 else self.now_ms)
        p += 48
        memcpy(p, self.born_host, self.born_host_length)
        p += self.born_host_length
        memset(p, 0, 8)
        memcpy(p + 8, self.store_host, self.store_host_length)
        p += 8 + self.store_host_length
        memset(p, 0, 12)
        silo_put32(p + 12, <uint32_t>m.body_length)
        memcpy(p + 16, m.body, m.body_length)
        p += 16 + m.body_length
        if route.wide:
            silo_put16(p, route.name_length)
            p += 2
        else:
            p[0] = <uint8_t>route.name_length
            p += 1
        memcpy(p, route.name, route.name_length)
        p += route.name_length
        silo_put16(p, m.properties_length)
        p += 2
        self.fill_key()
        memcpy(p, <const char *>"UNIQ_KEY\x01", 9)
        memcpy(p + 9, self.key_text, 32)
        p[41] = 2
        p += UNIQUE_KEY_PAIR
        if m.tags_length:
            memcpy(p, <const char *>"TAGS\x01", 5)
            memcpy(p + 5, m.tags, m.tags_length)
            p += 5 + m.tags_length
            p[0] = 2
            p += 1
        if m.keys_length:
            memcpy(p, <const char *>"KEYS\x01", 5)
            memcpy(p + 5, m.keys, m.keys_length)
            p += 5 + m.keys_length
            p[0] = 2
            p += 1
        memcpy(p, m.extra, m.extra_length)
        p += m.extra_length
        if self.append_crc:
            memcpy(p, CRC_PROPERTY, CRC_PROPERTY_SIZE)
            p += CRC_PROPERTY_SIZE
        return p

    # -- the ring

    cdef uint8_t *reserve(self, uint64_t length, double timeout_s) except NULL:
        """Room for a frame of `length` bytes that does not wrap. Waits for append when the ring is full.

        The lock is given up only inside `make_room`, after which everything is looked at again.
        """
        cdef int64_t deadline = 0
        cdef uint64_t rest, need
        cdef uint8_t *p
        if length > self.largest:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the message (or batch) needs {length} bytes of ring, this producer's ring of {self.capacity} "
                f"bytes takes {self.largest} at once: open it with a larger ring_size, or send less in one call",
            )
        while True:
            if self.closed is not None:
                raise self.closed
            rest = self.capacity - self.at
            need = length if rest >= length else rest
            if self.capacity - (self.head - self.tail) < need:
                if deadline == 0:
                    deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
                self.make_room(need, deadline)
                continue
            p = self.ring + RING_DATA + self.at
            if rest >= length:
                return p
            memset(p, 0, FRAME_HEADER)
            (<silo_frame *>p).length = <uint32_t>rest
            (<silo_frame *>p).kind = KIND_PAD
            self.head += rest
            self.at = 0

    cdef int make_room(self, uint64_t need, int64_t deadline) except -1:
        """Takes out the results that are there; if that does not free `need` bytes, waits once for more."""
        self.reap()
        if self.capacity - (self.head - self.tail) >= need:
            return 0
        if silo_monotonic_ns() >= deadline:
            raise SendTimeout(
                f"the ring is full: {self.head - self.tail} bytes wait for the store, which takes messages more "
                "slowly than this producer sends them"
            )
        silo_store(self.ring + RING_HEAD, self.head)  # a pad may not have been published yet
        self.ring_bell()
        return self.wait_change(self.ring + RING_TAIL, self.tail, 0.05)

    cdef void publish(self, uint8_t *frame, uint64_t length) noexcept:
        """Makes the sealed frame append's business, and rings the bell if append sleeps."""
        cdef silo_result *r = <silo_result *>(frame + FRAME_RESULT)
        r.status = r.physical_offset = r.queue_offset = r.store_timestamp = -1
        self.head += length
        self.at += length
        if self.at == self.capacity:
            self.at = 0
        silo_store(self.ring + RING_HEAD, self.head)  # SYNC: ring-head publish
        silo_fence()
        if silo_load(self.control + CONTROL_APPEND_ASLEEP):  # SYNC: append-asleep observe
            write(self.bell, &ONE, 8)

    def ring_bell(self):
        """Wakes append, whether it sleeps or not."""
        write(self.bell, &ONE, 8)

    cdef void seal(self, uint8_t *frame, uint64_t length, uint32_t record_bytes, uint32_t count,
                   uint32_t slot, bint wait) noexcept:
        """Fills in the header of a frame whose records are written: the CRC-32C covers all but the bodies."""
        cdef silo_frame *f = <silo_frame *>frame
        cdef uint8_t *r = frame + FRAME_HEADER
        cdef uint32_t crc, i, left = record_bytes
        cdef silo_record m
        f.length = <uint32_t>length
        f.kind = KIND_RECORDS
        f.record_bytes = record_bytes
        f.count = count
        f.queue_slot = slot
        f.flags = wait
        f.reserved = 0
        crc = silo_crc32c(0, frame + FRAME_CHECKED, FRAME_RESULT - FRAME_CHECKED)
        for i in range(count):
            silo_parse_record(r, left, &m)
            crc = silo_crc32c(crc, r, m.body_at)
            crc = silo_crc32c(crc, r + m.body_at + m.body_length, m.total - m.body_at - m.body_length)
            r += m.total
            left -= m.total
        f.crc = crc

    # -- sending

    cdef SendFuture put(self, object topic, object body, object tags, object keys, object properties,
                        uint32_t flag, object queue, object shard_key, object born,
                        bint wait_store, bint want, double timeout_s):
        """Encodes and publishes one message; its future if one is wanted."""
        cdef Route route
        cdef Parts m
        cdef uint8_t *frame
        cdef uint64_t length
        cdef uint32_t queue_id
        cdef bytes extra
        cdef SendFuture future = None
        route = self.route(topic)
        if type(body) is not bytes:
            body = body.encode() if isinstance(body, str) else bytes(body)
        m.body = <const uint8_t *>PyBytes_AS_STRING(body)
        m.body_length = PyBytes_GET_SIZE(body)
        m.tags_length = m.keys_length = m.extra_length = 0
        m.tags = m.keys = m.extra = m.body
        if tags is not None:
            m.tags = text(tags, &m.tags_length, "tags")
        if keys is not None:
            if type(keys) is not str:
                keys = join_keys(keys)
            m.keys = text(keys, &m.keys_length, "keys")
        if properties is not None or not wait_store:
            extra = encode_extra(properties or {}, wait_store)
            m.extra = <const uint8_t *>PyBytes_AS_STRING(extra)
            m.extra_length = PyBytes_GET_SIZE(extra)
        m.flag = flag
        m.born = -1 if born is None else born
        self.measure(route, &m)
        queue_id = route.choose(queue, shard_key)
        length = (FRAME_HEADER + m.total + 63) & ~<uint64_t>63
        frame = self.reserve(length, timeout_s)
        self.refresh_time()
        if want:
            future = self.promise(route, queue_id, length, m.total, 1, wait_store)
        self.encode(frame + FRAME_HEADER, route, queue_id, &m)
        self.seal(frame, length, m.total, 1, route.slot_of[queue_id], wait_store)
        self.publish(frame, length)
        return future

    cdef SendFuture put_batch(self, object topic, object messages, object queue, object shard_key,
                              bint wait_store, bint want, double timeout_s):
        """Encodes and publishes a sequence of messages (bytes or Message) for one queue as one frame."""
        cdef Route route
        cdef Parts m
        cdef uint8_t *frame
        cdef uint8_t *p
        cdef uint64_t length, total = 0, bodies = 0
        cdef uint32_t queue_id, count, i, ahead
        cdef list items
        cdef bytes lengths
        cdef SendFuture future = None
        route = self.route(topic)
        items = messages if type(messages) is list else list(messages)
        count = len(items)
        if count == 0:
            raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, "a batch needs at least one message")
        lengths = PyBytes_FromStringAndSize(NULL, 4 * count) if want else None
        for i in range(count):
            self.take(items, i, wait_store, &m)
            self.measure(route, &m)
            total += m.total
            bodies += m.body_length
            if want:
                (<uint32_t *>PyBytes_AS_STRING(lengths))[i] = m.total
        if bodies > self.max_body:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the bodies of the batch have {bodies} bytes, the store takes {self.max_body} at once "
                "(max_message_size): send fewer messages in a call",
            )
        queue_id = route.choose(queue, shard_key)
        length = (FRAME_HEADER + total + 63) & ~<uint64_t>63
        frame = self.reserve(length, timeout_s)
        self.refresh_time()
        if want:
            future = self.promise(route, queue_id, length, <uint32_t>total, count, wait_store)
            future.lengths = lengths
        p = frame + FRAME_HEADER
        for i in range(count):
            self.take(items, i, wait_store, &m)
            self.measure(route, &m)
            # The lines that come after this record were last read by append, on another core.
            for ahead in range(m.total, 2 * m.total, 64):
                __builtin_prefetch(p + ahead, 1, 3)
            p = self.encode(p, route, queue_id, &m)
        self.seal(frame, length, <uint32_t>total, count, route.slot_of[queue_id], wait_store)
        self.publish(frame, length)
        return future

    cdef int take(self, list items, uint32_t i, bint wait_store, Parts *m) except -1:
        """The parts of a batch's message: bytes, or a Message. The list keeps them alive."""
        cdef object item = items[i]
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
        if not wait_store:
            raise TypeError("a batch cannot be sent with wait_store=False: send its messages one by one")
        return 0

    # -- results

    cdef SendFuture promise(self, Route route, uint32_t queue_id, uint64_t length,
                            uint32_t record_bytes, uint32_t count, bint wait_store):
        """A future for the frame that is about to be written at the head."""
        cdef SendFuture future = SendFuture.__new__(SendFuture)
        future.producer = self
        future.at = self.at
        future.end = self.head + length
        future.topic = route.topic
        future.queue_id = queue_id
        future.count = count
        future.record_bytes = record_bytes
        future.wait_durable = wait_store and self.sync_flush
        future.key_prefix = self.key_prefix
        future.key_time = self.key_time
        future.key_counter = self.key_counter
        future.key_wrap = self.key_wrap
        if self.last is None:
            self.first = future
        else:
            self.last.next = future
        self.last = future
        return future

    cdef int reap(self) except -1:
        """Takes the results of answered frames out of the ring and resolves what is done."""
        cdef uint64_t tail = silo_load(self.ring + RING_TAIL)  # SYNC: ring-tail observe
        cdef SendFuture future
        cdef list ready = None
        cdef uint64_t flushed
        cdef int64_t now
        while self.first is not None and self.first.end <= tail:
            future = self.first
            self.first = future.next
            if self.first is None:
                self.last = None
            future.next = None
            memcpy(&future.outcome, self.ring + RING_DATA + future.at + FRAME_RESULT, sizeof(silo_result))
            if future.outcome.status != PUT_OK:
                future.error = IllegalMessage(
                    PutMessageStatus(future.outcome.status), "the store refused the message")
                ready = self.finish(future, F_FAILED, ready)
            elif future.wait_durable:
                future.state = F_APPENDED
                future.durable_end = future.outcome.physical_offset + future.record_bytes
                future.deadline = silo_monotonic_ns() + self.sync_timeout_ns
                if self.last_durable is None:
                    self.first_durable = future
                else:
                    self.last_durable.next = future
                self.last_durable = future
            else:
                ready = self.finish(future, F_DONE, ready)
        self.tail = tail
        if self.first_durable is not None:
            flushed = silo_load(self.control + CONTROL_FLUSHED)  # SYNC: flushed observe
            now = silo_monotonic_ns()
            while self.first_durable is not None:
                future = self.first_durable
                if future.durable_end > flushed:
                    if now < future.deadline:
                        break
                    future.outcome.status = FLUSH_DISK_TIMEOUT
                self.first_durable = future.next
                if self.first_durable is None:
                    self.last_durable = None
                future.next = None
                ready = self.finish(future, F_DONE, ready)
        if ready is not None:
            for future, callbacks in ready:
                run_callbacks(future, callbacks)
        return 0

    cdef list finish(self, SendFuture future, int state, list ready):
        future.state = state
        if future.callbacks is not None:
            if ready is None:
                ready = []
            ready.append((future, future.callbacks))
            future.callbacks = None
            self.waiting -= 1
        return ready

    def wait_for(self, SendFuture future, double timeout_s):
        """Waits until the future is done. Raises SendTimeout, or what closed the producer."""
        cdef int64_t deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef uint64_t flushed
        cdef int64_t left
        while True:
            flushed = silo_load(self.control + CONTROL_FLUSHED)
            self.reap()
            if future.state >= F_DONE:
                return
            left = deadline - silo_monotonic_ns()
            if left <= 0:
                raise SendTimeout(
                    f"no answer for {timeout_s:g} s; the message may still be stored: state "
                    f"{'appended, not yet durable' if future.state == F_APPENDED else 'not yet appended'}"
                )
            if future.state == F_APPENDED:
                self.wait_change(self.control + CONTROL_FLUSHED, flushed, min(left * 1e-9, 0.05))
            else:
                self.wait_change(self.ring + RING_TAIL, self.tail, min(left * 1e-9, 0.05))

    cdef int wait_change(self, const uint8_t *word, uint64_t seen, double timeout_s) except -1:
        """Waits, without the interpreter's lock, until `word` is no longer `seen`: spins a little, then sleeps."""
        cdef int64_t start, limit = <int64_t>(timeout_s * 1e9)
        cdef uint64_t *asleep = <uint64_t *>(self.ring + RING_PRODUCER_ASLEEP)
        cdef object ring = self.ring_view, control = self.control_view  # alive while the lock is away
        cdef bint changed = False
        with nogil:
            start = silo_monotonic_ns()
            while not changed and silo_monotonic_ns() - start < self.spin_ns:
                changed = silo_load(word) != seen
                silo_pause()
            if not changed:
                __atomic_fetch_add(asleep, 1, __ATOMIC_SEQ_CST)
                if silo_load(word) == seen:
                    silo_futex_wait(word, seen, limit)
                changed = silo_load(word) != seen
                __atomic_fetch_add(asleep, <uint64_t>-1, __ATOMIC_SEQ_CST)
        if not changed:
            self.check_alive()
        return 0

    def progress(self, double timeout_s):
        """For the thread that serves callbacks: resolves what is done, else waits for some progress."""
        cdef uint64_t flushed = silo_load(self.control + CONTROL_FLUSHED)
        self.reap()
        if self.first_durable is not None:
            self.wait_change(self.control + CONTROL_FLUSHED, flushed, timeout_s)
        elif self.first is not None:
            self.wait_change(self.ring + RING_TAIL, self.tail, timeout_s)
        self.reap()

    @property
    def in_flight(self):
        """Bytes of the ring that the store has not answered yet."""
        self.reap()
        return self.head - self.tail

    @property
    def rejected(self):
        """Frames of this session that the store refused, oneway messages among them."""
        return silo_load(self.ring + RING_REJECTED)

    @property
    def closed_by_store(self):
        """Why the store reads this ring no more (a RingClosed), 0 while it does."""
        return silo_load(self.ring + RING_CLOSED)

    def fail_pending(self, error):
        """Resolves every open future with `error`."""
        cdef SendFuture future
        cdef list ready = None
        for future in self.open_futures():
            future.error = error
            future.next = None
            ready = self.finish(future, F_FAILED, ready)
        self.first = self.last = self.first_durable = self.last_durable = None
        if ready is not None:
            for future, callbacks in ready:
                run_callbacks(future, callbacks)

    def shut(self, error):
        """No more calls: they raise `error`, as every open future does."""
        self.closed = error
        self.fail_pending(error)

    def forbid(self, error):
        """As `shut`, in a forked child: its parent's futures are not touched."""
        self.closed = error

    def wait_answered(self, double timeout_s):
        """Waits until every published frame was answered, under SYNC_FLUSH also made durable. Raises SendTimeout."""
        cdef int64_t deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
        cdef uint64_t target = self.head, flushed
        while True:
            flushed = silo_load(self.control + CONTROL_FLUSHED)
            self.reap()
            if self.tail >= target and self.first_durable is None:
                return
            if self.closed is not None:
                raise self.closed
            if silo_monotonic_ns() >= deadline:
                raise SendTimeout(f"{target - self.tail} bytes were not answered within {timeout_s:g} s")
            if self.tail < target:
                self.wait_change(self.ring + RING_TAIL, self.tail, 0.05)
            else:
                self.wait_change(self.control + CONTROL_FLUSHED, flushed, 0.05)

    def open_futures(self):
        """The futures that are not done, in the order of sending."""
        cdef SendFuture future
        found = []
        for future in (self.first_durable, self.first):
            while future is not None:
                found.append(future)
                future = future.next
        return found

    def unanswered(self):
        """The frames that were published and not answered: (records as bytes, count, future or None), in order."""
        cdef uint64_t p = silo_load(self.ring + RING_TAIL), at = p % self.capacity
        cdef SendFuture future = self.first
        cdef silo_frame *f
        found = []
        while p < self.head:
            f = <silo_frame *>(self.ring + RING_DATA + at)
            if f.kind == KIND_RECORDS:
                records = (<const char *>(self.ring + RING_DATA + at + FRAME_HEADER))[:f.record_bytes]
                mine = future if future is not None and future.end == p + f.length else None
                if mine is not None:
                    future = future.next
                found.append((records, f.count, mine))
            p += f.length
            at = (at + f.length) % self.capacity
        return found

    def resubmit(self, bytes records, uint32_t count, uint32_t slot, SendFuture future, double timeout_s):
        """Publishes records that an earlier session left unanswered; its future, if any, goes on here."""
        cdef uint64_t length = (FRAME_HEADER + <uint64_t>len(records) + 63) & ~<uint64_t>63
        cdef uint8_t *frame = self.reserve(length, timeout_s)
        memcpy(frame + FRAME_HEADER, <const char *>records, len(records))
        if future is not None:
            future.at = self.at
            future.end = self.head + length
            future.next = None
            if self.last is None:
                self.first = future
            else:
                self.last.next = future
            self.last = future
        self.seal(frame, length, <uint32_t>len(records), count, slot, True)
        self.publish(frame, length)

    def forget_pending(self):
        """Drops the lists of open futures: `resubmit` takes them up again."""
        self.first = self.last = self.first_durable = self.last_durable = None

    # -- the public calls

    def send_oneway(self, topic, body, *, tags=None, keys=None, properties=None, uint32_t flag=0,
                    queue=None, shard_key=None, born_timestamp=None, timeout=None):
        """Publishes a message and does not ask what becomes of it. Waits only while the ring is full.

        `queue` chooses the queue by number, `shard_key` by hash; without both the queues take turns. Raises
        IllegalMessage, SendTimeout after `timeout` seconds of a full ring, StoreClosed.
        """
        self.put(topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp, True, False,
                 self.send_timeout_s if timeout is None else timeout)

    def send_async(self, topic, body, *, tags=None, keys=None, properties=None, uint32_t flag=0, queue=None,
                   shard_key=None, born_timestamp=None, bint wait_store=True, callback=None, timeout=None):
        """Publishes a message and returns its SendFuture. Waits only while the ring is full.

        `wait_store=False` (RocketMQ's WAIT property) asks for no sync under SYNC_FLUSH. Raises as `send_oneway`.
        """
        cdef SendFuture future = self.put(
            topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp, wait_store, True,
            self.send_timeout_s if timeout is None else timeout)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send(self, topic, body, *, tags=None, keys=None, properties=None, uint32_t flag=0, queue=None,
             shard_key=None, born_timestamp=None, bint wait_store=True, timeout=None):
        """Sends a message and waits for the store's answer, a SendResult.

        PUT_OK means appended, under SYNC_FLUSH durable; FLUSH_DISK_TIMEOUT that it was appended but not synced in
        time. Raises IllegalMessage, SendTimeout (outcome unknown), StoreClosed.
        """
        cdef double seconds = self.send_timeout_s if timeout is None else timeout
        return self.put(topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp,
                        wait_store, True, seconds).result(seconds)

    def send_batch(self, topic, messages, *, queue=None, shard_key=None, timeout=None):
        """Sends messages (bytes or Message) to one queue, all or none, and waits for the answer."""
        cdef double seconds = self.send_timeout_s if timeout is None else timeout
        return self.put_batch(topic, messages, queue, shard_key, True, True, seconds).result(seconds)

    def send_batch_async(self, topic, messages, *, queue=None, shard_key=None, callback=None, timeout=None):
        """As `send_batch`, but returns the batch's SendFuture."""
        cdef SendFuture future = self.put_batch(
            topic, messages, queue, shard_key, True, True,
            self.send_timeout_s if timeout is None else timeout)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send_batch_oneway(self, topic, messages, *, queue=None, shard_key=None, timeout=None):
        """As `send_batch`, but does not ask what becomes of it."""
        self.put_batch(topic, messages, queue, shard_key, True, False,
                       self.send_timeout_s if timeout is None else timeout)


cdef run_callbacks(SendFuture future, list callbacks):
    """A callback's error is its own: it is reported as Python reports errors that nobody can catch."""
    for callback in callbacks:
        try:
            callback(future)
        except Exception:
            sys.unraisablehook(Unraisable(*sys.exc_info(), "in a SendFuture's callback", callback))


Unraisable = collections.namedtuple("Unraisable", "exc_type exc_value exc_traceback err_msg object")
