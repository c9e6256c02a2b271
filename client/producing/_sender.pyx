# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`Sender`: the sending calls. One Python call encodes a message, in its final form, straight into
the session's ring.

A put is one step: from the reservation of a frame to its publication no other thread runs. The
session (`send_session.py`) decides whether the store is still there, and whether a frame may be
written now.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import re

from silomq.client.producing._encode cimport Encoder
from silomq.client.producing._future cimport DURABLE, MEMORY, SendFuture
from silomq.client.producing._message cimport (
    Message, Parts, Route, check_alone, in_batch, number, plain_keys, plain_text, take, text, truth,
)
from silomq.client.producing._ring cimport (
    FRAME_HEADER, Ring, deadline_after, frame_length, silo_monotonic_ns,
)

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from .. import arguments
from ..errors import SendTimeout
from .message_properties import Delayed, encode_extra, plan_delay, plan_light_queues

cdef object OWN = arguments.OWN
cdef object DELAYED = Delayed
cdef bytes NO_SYNC = b"WAIT\x01false\x02"
cdef object KEY_FORM = re.compile("[0-9A-F]{32}")

cdef extern from *:
    void __builtin_prefetch(const void *p, int rw, int locality) nogil


cdef inline object asked(object delay_level, object deliver_at, object delay_ms):
    """The caller's three delay arguments as a tuple; None if all have their defaults."""
    if type(delay_level) is int and delay_level == 0 and deliver_at is None and delay_ms is None:
        return None
    return delay_level, deliver_at, delay_ms


cdef class Sender:
    """Sends messages through the ring of `session`, a SendSession."""

    def __init__(self, session):
        self.session = session
        self.ring = session.ring
        self.encoder = session.encoder
        self.routes = session.routes
        self.timeout_s = session.timeout_s

    cdef double seconds(self, object timeout) except? -1:
        """The time-out of a call. Raises IllegalArgument, IllegalType."""
        return self.timeout_s if timeout is OWN else arguments.seconds("timeout", timeout)

    cdef Route route(self, object topic):
        """The topic's route. Asks the store for it when the session has none."""
        cdef object found
        if type(topic) is not str and type(topic) is not DELAYED:
            topic = arguments.text("topic", topic)
        found = self.routes.get(topic)
        return <Route>(self.session.open_topic(topic) if found is None else found)

    cdef uint8_t *reserve(self, uint64_t length, double timeout_s) except NULL:
        """Space for a frame of `length` bytes. Waits while the ring is full. Raises IllegalMessage
        for a frame that never fits, SendTimeout after `timeout_s`, and the errors of the session.

        Other threads may run before it returns, but not between its last look at the ring and its
        return. The session may have been replaced since the call: see `Ring.generation`.
        """
        cdef Ring ring = self.ring
        cdef int64_t deadline = 0
        cdef uint64_t tail
        cdef uint8_t *frame
        while True:
            if length > ring.largest:
                raise IllegalMessage(
                    PutMessageStatus.MESSAGE_ILLEGAL,
                    f"the message (or batch) needs {length} bytes of ring, this producer's ring "
                    f"of {ring.capacity} bytes takes {ring.largest} at once: open it with a larger "
                    "ring_size, or send less in one call",
                )
            if ring.holds:
                self.session.before_put()
                continue
            frame = ring.reserve(length)
            if frame != NULL:
                return frame
            tail = ring.tail
            ring.reap()
            if ring.told is not None:
                self.session.settle()
            if ring.tail != tail:
                continue
            if deadline == 0:
                deadline = deadline_after(timeout_s)
            if silo_monotonic_ns() >= deadline:
                raise SendTimeout(
                    f"the ring is full: {ring.head - ring.tail} bytes wait for the store, which "
                    "takes messages more slowly than this producer sends them")
            if not ring.wait_room():
                self.session.look_after()

    cdef SendFuture promise(self, Route route, uint32_t queue_id, uint64_t length,
                            uint32_t record_bytes, uint32_t count, bint wait_store):
        """A future for the frame of `length` bytes that was reserved."""
        cdef SendFuture future = SendFuture.__new__(SendFuture)
        cdef Encoder encoder = self.encoder
        future.session = self.session
        future.ring = self.ring
        future.topic = route.topic
        future.queue_id = queue_id
        future.count = count
        future.level = self.ring.level if wait_store else self.ring.level & MEMORY
        future.needs_sync = future.level == DURABLE
        future.store_host = encoder.store_host_bytes
        future.key_prefix = encoder.key_prefix
        future.key_time = encoder.key_time
        future.key_counter = encoder.key_counter
        future.key_wrap = encoder.key_wrap
        self.ring.expect(future, length, record_bytes)
        return future

    cdef SendFuture put(self, object topic, object body, object tags, object keys,
                        object properties, object flag, object queue, object shard_key,
                        object born, bint wait_store, bint want, double timeout_s,
                        bytes pairs=None):
        """Encodes and publishes one message. Returns its future if `want` is set. `pairs` are
        properties that the client itself adds.
        """
        # The store may be restarted while `reserve` waits; then the route has changed.
        cdef uint64_t generation = self.ring.generation, length
        cdef Route route = self.route(topic)
        cdef Encoder encoder = self.encoder
        cdef Parts m
        cdef uint8_t *frame
        cdef uint32_t queue_id
        cdef bytes extra = None
        cdef object light = None
        cdef SendFuture future = None
        if type(body) is Message:
            check_alone(tags, keys, properties, flag, born)
            take(body, &m)
            extra = (<Message>body).extra if wait_store else (<Message>body).extra + NO_SYNC
            light = (<Message>body).light
        else:
            if type(body) is not bytes:
                body = arguments.body("body", body)
            take(body, &m)
            if tags is not None:
                tags = plain_text(tags, "tags")
                m.tags = text(tags, &m.tags_length, "tags")
            if keys is not None:
                keys = plain_keys(keys)
                m.keys = text(keys, &m.keys_length, "keys")
            m.flag = <int32_t>number(flag, "flag", -2**31, 2**31 - 1)
            m.born = -1 if born is None else number(born, "born_timestamp", 0, 2**63 - 1)
            if properties is not None:
                extra = encode_extra(properties, wait_store=wait_store, light=True)
                light = plan_light_queues(properties)
            elif not wait_store:
                extra = NO_SYNC
        if light is not None:
            extra += self.session.open_light_queues(topic, light)
        if pairs is not None:
            extra = pairs if extra is None else extra + pairs
        if extra is not None:
            m.extra = <const uint8_t *>PyBytes_AS_STRING(extra)
            m.extra_length = PyBytes_GET_SIZE(extra)
        encoder.measure(route, &m)
        queue_id = route.choose(queue, shard_key)
        length = frame_length(m.total)
        frame = self.reserve(length, timeout_s)
        if self.ring.generation != generation:
            return self.put(topic, body, tags, keys, properties, flag, queue, shard_key, born,
                            wait_store, want, timeout_s, pairs)
        self.ring.sent_us = encoder.refresh_time()
        if want:
            future = self.promise(route, queue_id, length, m.total, 1, wait_store)
        encoder.encode(frame + FRAME_HEADER, route, queue_id, &m)
        self.ring.seal(frame, length, m.total, 1, route.slot_of[queue_id], wait_store)
        self.ring.publish(frame, length)
        return future

    cdef SendFuture put_delayed(self, object topic, object body, object tags, object keys,
                                object properties, object flag, object queue, object shard_key,
                                object born, bint wait_store, bint want, double timeout_s,
                                object delay):
        """The same as `put`, for a delayed message: `delay` is (delay_level, deliver_at, delay_ms),
        or None.
        """
        cdef object plan
        cdef SendFuture future
        if delay is None:
            return self.put(topic, body, tags, keys, properties, flag, queue, shard_key, born,
                            wait_store, want, timeout_s)
        if type(topic) is not str:
            topic = arguments.text("topic", topic)
        queue = self.route(topic).choose(queue, shard_key)
        plan = plan_delay(topic, queue, *delay, levels=self.session.config.delay_levels)
        if plan is None:
            return self.put(topic, body, tags, keys, properties, flag, queue, None, born,
                            wait_store, want, timeout_s)
        future = self.put(plan.where, body, tags, keys, properties, flag, plan.queue, None, born,
                          wait_store, want, timeout_s, plan.pairs)
        if want and plan.due_ms is not None:
            future.timer = (topic, plan.due_ms)
        return future

    cdef SendFuture put_batch(self, object topic, object messages, object queue, object shard_key,
                              bint want, double timeout_s):
        """Encodes and publishes a sequence of messages (bytes or Message) for one queue as one
        frame.
        """
        cdef uint64_t generation = self.ring.generation
        cdef Route route = self.route(topic)
        cdef Encoder encoder = self.encoder
        cdef Parts m
        cdef uint8_t *frame
        cdef uint8_t *p
        cdef list items = in_batch(messages, <Py_ssize_t>self.ring.largest // 64)
        cdef uint32_t queue_id, count = len(items), i, ahead
        cdef bytes lengths = PyBytes_FromStringAndSize(NULL, 4 * count) if want else None
        cdef bint light
        cdef uint64_t total = encoder.measure_batch(
            route, items, <uint32_t *>PyBytes_AS_STRING(lengths) if want else NULL, &light)
        cdef uint64_t length = frame_length(total)
        cdef SendFuture future = None
        if light:
            self.open_light_queues(topic, items)
        queue_id = route.choose(queue, shard_key)
        frame = self.reserve(length, timeout_s)
        if self.ring.generation != generation:
            return self.put_batch(topic, items, queue, shard_key, want, timeout_s)
        self.ring.sent_us = encoder.refresh_time()
        if want:
            future = self.promise(route, queue_id, length, <uint32_t>total, count, True)
            future.lengths = lengths
        p = frame + FRAME_HEADER
        for i in range(count):
            take(items[i], &m)
            encoder.measure(route, &m)
            # Append, on another core, was the last to read the cache lines that come after this
            # record.
            for ahead in range(m.total, 2 * m.total, 64):
                __builtin_prefetch(p + ahead, 1, 3)
            p = encoder.encode(p, route, queue_id, &m)
        self.ring.seal(frame, length, <uint32_t>total, count, route.slot_of[queue_id], True)
        self.ring.publish(frame, length)
        return future

    cdef int open_light_queues(self, object topic, list items) except -1:
        """Opens the light queues that messages of a batch name."""
        for item in items:
            if type(item) is Message and (<Message>item).light is not None:
                self.session.open_light_queues(topic, (<Message>item).light)
        return 0

    def __reduce_ex__(self, protocol):
        arguments.no_copy(self)

    def send(self, topic, body, *, tags=None, keys=None, properties=None, flag=0,
             queue=None, shard_key=None, born_timestamp=None, wait_store=True, timeout=OWN,
             delay_level=0, deliver_at=None, delay_ms=None):
        """Sends a message and waits for the store's answer, a SendResult.

        The store makes `topic` if it may (`auto_create_topic_enable`). `body` is bytes-like, or a
        str that is sent as UTF-8. `tags` is a str. `keys` is a str with spaces between the keys, or
        an iterable of keys. `properties` is a mapping of str to str, none of them empty. `flag` is
        a number of the application's own, signed, 32 bits. `born_timestamp` is in epoch ms, by
        default now. A `Message` as the body brings these five with it.

        The queue is the number `queue`, or follows from the hash of `shard_key`: the absolute value
        of Java's String.hashCode modulo the number of queues. Without both the queues take turns.

        `delay_level` (1 to 18, or as `message_delay_level` says; a higher one counts as the last),
        `deliver_at` (epoch ms) or `delay_ms` make the message wait in the store, the latter two for
        up to three days. The result then names the topic in which the message waits.

        PUT_OK means appended, and under SYNC_FLUSH durable. FLUSH_DISK_TIMEOUT means that the
        message was appended but not synced in time. `wait_store=False` (RocketMQ's WAIT property)
        asks for no sync. `timeout` is in seconds, by default the producer's; None is no limit.

        Raises one of:

        - IllegalMessage when the message is not sent or the store refused it (its `status` says
          why);
        - SendTimeout when there was no answer in time (the message may still be stored);
        - StoreClosed when the store or the producer is closed;
        - IllegalArgument and IllegalType, which are a ValueError and a TypeError.
        """
        cdef double seconds = self.seconds(timeout)
        return self.put_delayed(
            topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp,
            truth(wait_store, "wait_store"), True, seconds,
            asked(delay_level, deliver_at, delay_ms)).wait(seconds)

    def send_async(self, topic, body, *, tags=None, keys=None, properties=None, flag=0,
                   queue=None, shard_key=None, born_timestamp=None, wait_store=True,
                   callback=None, timeout=OWN, delay_level=0, deliver_at=None, delay_ms=None):
        """Publishes a message and returns its SendFuture. Arguments and errors are those of `send`.

        Waits only while the ring is full, up to `timeout` seconds. Then it raises SendTimeout, and
        nothing was sent. `callback(future)` is called once, see `SendFuture.add_done_callback`.
        """
        cdef SendFuture future
        if callback is not None:
            arguments.function("callback", callback)
        future = self.put_delayed(
            topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp,
            truth(wait_store, "wait_store"), True, self.seconds(timeout),
            asked(delay_level, deliver_at, delay_ms))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send_oneway(self, topic, body, *, tags=None, keys=None, properties=None, flag=0,
                    queue=None, shard_key=None, born_timestamp=None, timeout=OWN,
                    delay_level=0, deliver_at=None, delay_ms=None):
        """Publishes a message and does not wait for an answer. A message that the store refuses is
        only counted in `rejected`.

        Arguments and errors are those of `send`. Waits only while the ring is full, as
        `send_async`.
        """
        self.put_delayed(topic, body, tags, keys, properties, flag, queue, shard_key,
                         born_timestamp, True, False, self.seconds(timeout),
                         asked(delay_level, deliver_at, delay_ms))

    def send_batch(self, topic, messages, *, queue=None, shard_key=None, timeout=OWN):
        """Sends an iterable of bodies, as `send` takes them, or of Messages, and waits for the
        answer, a SendResult.

        All go to one queue, without a gap, and either all or none are stored. Their bodies together
        must not be longer than the longest body (`max_message_size`). `queue`, `shard_key`,
        `timeout` and errors are those of `send`.
        """
        cdef double seconds = self.seconds(timeout)
        return self.put_batch(topic, messages, queue, shard_key, True, seconds).wait(seconds)

    def send_batch_async(self, topic, messages, *, queue=None, shard_key=None, callback=None,
                         timeout=OWN):
        """As `send_batch`, but returns the SendFuture of the whole batch, as `send_async` does."""
        cdef SendFuture future
        if callback is not None:
            arguments.function("callback", callback)
        future = self.put_batch(
            topic, messages, queue, shard_key, True, self.seconds(timeout))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send_batch_oneway(self, topic, messages, *, queue=None, shard_key=None, timeout=OWN):
        """As `send_batch`, but does not wait for an answer, as `send_oneway`."""
        self.put_batch(topic, messages, queue, shard_key, False, self.seconds(timeout))


def session_of(Sender sender not None):
    """The SendSession of a Producer: for code of this package that needs more than the public
    methods, such as the store's configuration.
    """
    return sender.session


def send_encoded(Sender sender not None, topic, uint32_t queue_id, bytes record, *,
                 unique_key=None, bint wait_store=True, timeout=OWN):
    """Sends a record that is encoded already, and waits for the store's answer, a SendResult. Under
    SYNC_FLUSH that is durable, unless `wait_store` is false.

    This is for messages that must keep fields which `Producer.send` would set: birth, flags,
    reconsumeTimes, UNIQ_KEY. `topic` is the record's topic, or the Delayed in its place.
    `unique_key`, if it has RocketMQ's form, is the result's `message_id`. Raises as
    `Producer.send`.
    """
    cdef double seconds = sender.seconds(timeout)
    cdef uint64_t generation = sender.ring.generation, length = frame_length(len(record))
    cdef Route route = sender.route(topic)
    cdef uint8_t *frame
    cdef SendFuture future
    queue_id = route.choose(queue_id, None)  # raises IllegalMessage for an unknown queue
    frame = sender.reserve(length, seconds)
    if sender.ring.generation != generation:
        return send_encoded(sender, topic, queue_id, record, unique_key=unique_key,
                            wait_store=wait_store, timeout=timeout)
    future = sender.promise(route, queue_id, length, <uint32_t>len(record), 1, wait_store)
    if unique_key is not None and KEY_FORM.fullmatch(unique_key):
        future.key_prefix = unique_key[:20].encode()
        future.key_time = int(unique_key[20:28], 16)
        future.key_counter = future.key_wrap = (int(unique_key[28:], 16) - 1) & 0xFFFF
    memcpy(frame + FRAME_HEADER, <const char *>record, len(record))
    sender.ring.sent_us = sender.encoder.refresh_time()
    sender.ring.seal(frame, length, <uint32_t>len(record), 1, route.slot_of[queue_id], wait_store)
    sender.ring.publish(frame, length)
    return future.wait(seconds)
