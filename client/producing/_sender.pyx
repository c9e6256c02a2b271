# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The sending calls: one Python call encodes a message, in its final form, straight into the
session's ring."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import re

from silomq.client.producing._encode cimport Encoder
from silomq.client.producing._message cimport Parts, take, text

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from .message_properties import encode_extra, join_keys, plan_delay

cdef object KEY_FORM = re.compile("[0-9A-F]{32}")
cdef object KEY_PREFIX = re.compile("[0-9A-F]{20}")

cdef extern from "shm/layout.h" nogil:
    int FRAME_HEADER

cdef extern from *:
    void __builtin_prefetch(const void *p, int rw, int locality) nogil


cdef inline object asked(int delay_level, object deliver_at, object delay_ms):
    """What the caller said of a delay; None for nothing."""
    if delay_level == 0 and deliver_at is None and delay_ms is None:
        return None
    return delay_level, deliver_at, delay_ms


cdef class Sender(RingProducer):
    """Sends through a ring. Subclasses give `open_topic(topic)`, which returns the topic's
    Route."""

    def number_keys(self, str prefix, uint64_t first):
        """The next messages' UNIQ_KEYs: `prefix` (20 hexadecimal digits, capitals) and 12 digits
        that count from `first` (1 to 2^48 - 1). For who must find again what it sent in another
        life. Raises ValueError."""
        if not KEY_PREFIX.fullmatch(prefix) or not 0 < first < <uint64_t>1 << 48:
            raise ValueError(
                f"keys {prefix!r} from {first}: a prefix of 20 hexadecimal digits, numbers from 1")
        self.encoder.number_keys(prefix.encode(), first)

    cdef Route route(self, object topic):
        cdef object found = self.routes.get(topic)
        if found is None:
            if self.closed is not None:
                raise self.closed
            found = self.open_topic(topic)
        return <Route>found

    cdef SendFuture put(self, object topic, object body, object tags, object keys,
                        object properties, uint32_t flag, object queue, object shard_key,
                        object born, bint wait_store, bint want, double timeout_s,
                        bytes pairs=None):
        """Encodes and publishes one message; its future if one is wanted. `pairs` are properties
        that the client itself adds."""
        cdef Route route
        cdef Encoder encoder = self.encoder
        cdef Parts m
        cdef uint8_t *frame
        cdef uint64_t length
        cdef uint32_t queue_id
        cdef bytes extra
        cdef SendFuture future = None
        # The store may be restarted while `reserve` waits; then the route is another one.
        cdef uint64_t generation = self.generation
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
        if properties is not None or not wait_store or pairs is not None:
            extra = encode_extra(properties or {}, wait_store=wait_store)
            if pairs is not None:
                extra += pairs
            m.extra = <const uint8_t *>PyBytes_AS_STRING(extra)
            m.extra_length = PyBytes_GET_SIZE(extra)
        m.flag = flag
        m.born = -1 if born is None else born
        encoder.measure(route, &m)
        queue_id = route.choose(queue, shard_key)
        length = (FRAME_HEADER + m.total + 63) & ~<uint64_t>63
        frame = self.reserve(length, timeout_s)
        if self.generation != generation:
            return self.put(topic, body, tags, keys, properties, flag, queue, shard_key, born,
                            wait_store, want, timeout_s, pairs)
        encoder.refresh_time()
        if want:
            future = self.promise(route, queue_id, length, m.total, 1, wait_store)
        encoder.encode(frame + FRAME_HEADER, route, queue_id, &m)
        self.seal(frame, length, m.total, 1, route.slot_of[queue_id], wait_store)
        self.publish(frame, length)
        return future

    cdef SendFuture put_delayed(self, object topic, object body, object tags, object keys,
                                object properties, uint32_t flag, object queue, object shard_key,
                                object born, bint wait_store, bint want, double timeout_s,
                                object delay):
        """As `put`, for later: `delay` is (delay_level, deliver_at, delay_ms), or None."""
        cdef object plan
        if delay is None:
            return self.put(topic, body, tags, keys, properties, flag, queue, shard_key, born,
                            wait_store, want, timeout_s)
        queue = self.route(topic).choose(queue, shard_key)
        plan = plan_delay(topic, queue, *delay)
        if plan is None:
            return self.put(topic, body, tags, keys, properties, flag, queue, None, born,
                            wait_store, want, timeout_s)
        return self.put(plan.where, body, tags, keys, properties, flag, plan.queue, None, born,
                        wait_store, want, timeout_s, plan.pairs)

    def send_encoded(self, topic, uint32_t queue_id, bytes record, *, unique_key=None,
                     timeout=None):
        """Sends a record in its final form, and waits for the store's answer. `topic` is the
        record's, or the Delayed that stands for it; `unique_key` is what the result calls it."""
        cdef double seconds = self.send_timeout_s if timeout is None else timeout
        cdef uint64_t generation = self.generation, length
        cdef Route route = self.route(topic)
        cdef uint8_t *frame
        cdef SendFuture future
        length = (FRAME_HEADER + <uint64_t>len(record) + 63) & ~<uint64_t>63
        frame = self.reserve(length, seconds)
        if self.generation != generation:
            return self.send_encoded(topic, queue_id, record, unique_key=unique_key,
                                     timeout=timeout)
        future = self.promise(route, queue_id, length, <uint32_t>len(record), 1, False)
        if unique_key is not None and KEY_FORM.fullmatch(unique_key):
            future.key_prefix = unique_key[:20].encode()
            future.key_time = int(unique_key[20:28], 16)
            future.key_counter = future.key_wrap = (int(unique_key[28:], 16) - 1) & 0xFFFF
        memcpy(frame + FRAME_HEADER, <const char *>record, len(record))
        self.seal(frame, length, <uint32_t>len(record), 1, route.slot_of[queue_id], False)
        self.publish(frame, length)
        return future.result(seconds)

    cdef uint64_t measure_batch(self, Route route, list items, uint32_t *lengths) except? 0:
        """Checks a batch's limits; the length of its records together, and of each in `lengths`."""
        cdef Parts m
        cdef uint64_t total = 0, bodies = 0
        cdef Py_ssize_t i
        if not items:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL, "a batch needs at least one message")
        for i in range(len(items)):
            take(items[i], &m)
            self.encoder.measure(route, &m)
            total += m.total
            bodies += m.body_length
            if lengths != NULL:
                lengths[i] = m.total
        if bodies > self.encoder.max_body:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the bodies of the batch have {bodies} bytes, the store takes "
                f"{self.encoder.max_body} at once (max_message_size): send fewer messages in a "
                "call",
            )
        return total

    cdef SendFuture put_batch(self, object topic, object messages, object queue, object shard_key,
                              bint want, double timeout_s):
        """Encodes and publishes a sequence of messages (bytes or Message) for one queue as one
        frame.
        """
        cdef uint64_t generation = self.generation
        cdef Route route = self.route(topic)
        cdef Encoder encoder = self.encoder
        cdef Parts m
        cdef uint8_t *frame
        cdef uint8_t *p
        # A copy: another thread may change the caller's list while this one waits for room.
        cdef list items = list(messages)
        cdef uint32_t queue_id, count = len(items), i, ahead
        cdef bytes lengths = PyBytes_FromStringAndSize(NULL, 4 * count) if want else None
        cdef uint64_t total = self.measure_batch(
            route, items, <uint32_t *>PyBytes_AS_STRING(lengths) if want else NULL)
        cdef uint64_t length = (FRAME_HEADER + total + 63) & ~<uint64_t>63
        cdef SendFuture future = None
        queue_id = route.choose(queue, shard_key)
        frame = self.reserve(length, timeout_s)
        if self.generation != generation:
            return self.put_batch(topic, items, queue, shard_key, want, timeout_s)
        encoder.refresh_time()
        if want:
            future = self.promise(route, queue_id, length, <uint32_t>total, count, True)
            future.lengths = lengths
        p = frame + FRAME_HEADER
        for i in range(count):
            take(items[i], &m)
            encoder.measure(route, &m)
            # The lines that come after this record were last read by append, on another core.
            for ahead in range(m.total, 2 * m.total, 64):
                __builtin_prefetch(p + ahead, 1, 3)
            p = encoder.encode(p, route, queue_id, &m)
        self.seal(frame, length, <uint32_t>total, count, route.slot_of[queue_id], True)
        self.publish(frame, length)
        return future

    def send_oneway(self, topic, body, *, tags=None, keys=None, properties=None, uint32_t flag=0,
                    queue=None, shard_key=None, born_timestamp=None, timeout=None,
                    int delay_level=0, deliver_at=None, delay_ms=None):
        """Publishes a message and does not ask what becomes of it. Waits only while the ring is
        full.

        `queue` chooses the queue by number, `shard_key` by hash; without both the queues take
        turns. `delay_level` (1 to 18, RocketMQ's; a higher one is the highest), `deliver_at` (epoch
        ms) or `delay_ms`, the latter two up to three days ahead, let the message wait in the store.
        Raises IllegalMessage, SendTimeout after `timeout` seconds of a full ring,
        StoreClosed.
        """
        self.put_delayed(topic, body, tags, keys, properties, flag, queue, shard_key,
                         born_timestamp, True, False,
                         self.send_timeout_s if timeout is None else timeout,
                         asked(delay_level, deliver_at, delay_ms))

    def send_async(self, topic, body, *, tags=None, keys=None, properties=None, uint32_t flag=0,
                   queue=None, shard_key=None, born_timestamp=None, bint wait_store=True,
                   callback=None, timeout=None, int delay_level=0, deliver_at=None, delay_ms=None):
        """Publishes a message and returns its SendFuture. Waits only while the ring is full.

        `wait_store=False` (RocketMQ's WAIT property) asks for no sync under SYNC_FLUSH. Raises as
        `send_oneway`.
        """
        cdef SendFuture future = self.put_delayed(
            topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp, wait_store,
            True, self.send_timeout_s if timeout is None else timeout,
            asked(delay_level, deliver_at, delay_ms))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send(self, topic, body, *, tags=None, keys=None, properties=None, uint32_t flag=0,
             queue=None, shard_key=None, born_timestamp=None, bint wait_store=True, timeout=None,
             int delay_level=0, deliver_at=None, delay_ms=None):
        """Sends a message and waits for the store's answer, a SendResult.

        PUT_OK means appended, under SYNC_FLUSH durable; FLUSH_DISK_TIMEOUT that it was appended but
        not synced in time. The result of a delayed message names the topic in which it waits.
        Raises IllegalMessage, SendTimeout (outcome unknown), StoreClosed.
        """
        cdef double seconds = self.send_timeout_s if timeout is None else timeout
        return self.put_delayed(
            topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp, wait_store,
            True, seconds, asked(delay_level, deliver_at, delay_ms)).result(seconds)

    def send_batch(self, topic, messages, *, queue=None, shard_key=None, timeout=None):
        """Sends messages (bytes or Message) to one queue, all or none, and waits for the answer."""
        cdef double seconds = self.send_timeout_s if timeout is None else timeout
        return self.put_batch(topic, messages, queue, shard_key, True, seconds).result(seconds)

    def send_batch_async(self, topic, messages, *, queue=None, shard_key=None, callback=None,
                         timeout=None):
        """As `send_batch`, but returns the batch's SendFuture."""
        cdef SendFuture future = self.put_batch(
            topic, messages, queue, shard_key, True,
            self.send_timeout_s if timeout is None else timeout)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send_batch_oneway(self, topic, messages, *, queue=None, shard_key=None, timeout=None):
        """As `send_batch`, but does not ask what becomes of it."""
        self.put_batch(topic, messages, queue, shard_key, False,
                       self.send_timeout_s if timeout is None else timeout)
