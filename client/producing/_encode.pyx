# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The record encoder: writes a message in its final form, with its unique key, to a given place.

Fields that only append can know are left zero: queue offset, physical offset, store timestamp, and
the record's CRC. The layout is that of `store/record/format.py`. The unique key follows RocketMQ's
MessageClientIDSetter: address, process, a random number, milliseconds, a counter.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import os
import re

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus

cdef object KEY_PREFIX = re.compile("[0-9A-F]{20}")
# Two hexadecimal digits for each byte value.
cdef bytes HEX = "".join(f"{i:02X}" for i in range(256)).encode()
cdef const char *HEX_DIGITS = HEX
# The pair whose value append fills in.
cdef const char *CRC_PROPERTY = "__CRC32#\x010000000000\x02"


cdef inline uint8_t *put_pair(uint8_t *p, const char *name, size_t name_length,
                              const uint8_t *value, size_t length) noexcept:
    """Writes one property at `p`; `name` ends with the separator. Returns the pair's end."""
    memcpy(p, name, name_length)
    memcpy(p + name_length, value, length)
    p[name_length + length] = 2
    return p + name_length + length + 1


cdef class Encoder:
    """Encodes for one producer. `config` is the store's StoreConfig (`client/store_config.py`)."""

    def __init__(self, config):
        self.key_prefix = (config.born_address[:4] + (os.getpid() & 0xFFFF).to_bytes(2, "big")
                           + os.urandom(4)).hex().upper().encode()
        assert len(self.key_prefix) == PREFIX
        memcpy(self.key_text, <const char *>self.key_prefix, PREFIX)
        self.key_epoch_ms = config.key_epoch_ms
        self.configure(config)

    def configure(self, config):
        """Takes over the store's configuration, which may have changed when the store was
        restarted.
        """
        self.store_host_bytes = config.store_host
        self.store_host_length = len(config.store_host)
        memcpy(self.store_host, <const char *><bytes>config.store_host, self.store_host_length)
        self.born_host_length = len(config.born_host)
        memcpy(self.born_host, <const char *><bytes>config.born_host, self.born_host_length)
        self.sys_flag = ((FLAG_BORN_V6 if self.born_host_length == 20 else 0)
                         | (FLAG_STORE_V6 if self.store_host_length == 20 else 0))
        self.max_body = config.max_message_size
        self.append_crc = config.append_crc

    def number_keys(self, str prefix not None, uint64_t first):
        """Makes the next unique keys of `prefix` (20 hexadecimal digits, capitals) and 12 digits
        that count from `first` (1 to 2^48 - 1). Raises ValueError.
        """
        if not KEY_PREFIX.fullmatch(prefix) or not 0 < first < <uint64_t>1 << 48:
            raise ValueError(
                f"keys {prefix!r} from {first}: a prefix of 20 hexadecimal digits, numbers from 1")
        self.keys_numbered = True
        self.key_prefix = prefix.encode()
        self.key_time = <uint32_t>((first - 1) >> 16)
        self.key_counter = <uint16_t>((first - 1) & 0xFFFF)
        self.key_wrap = 0
        memcpy(self.key_text, <const char *>self.key_prefix, PREFIX)
        self.fill_time()

    cdef void fill_time(self) noexcept:
        """Writes the eight digits of the key that are the time."""
        cdef int i
        for i in range(4):
            memcpy(self.key_text + PREFIX + 2 * i,
                   HEX_DIGITS + 2 * (self.key_time >> (24 - 8 * i) & 255), 2)

    cdef uint32_t refresh_time(self) noexcept:
        """Reads the clock, and updates `now_ms` and the time in unique keys; neither steps back.
        Returns the low half of the clock's time, epoch us.
        """
        cdef int64_t now_us = silo_realtime_us(), now = now_us // 1000
        cdef uint32_t time
        if now > self.now_ms:
            self.now_ms = now
        time = <uint32_t>(self.now_ms - self.key_epoch_ms)
        if time > self.key_time and not self.keys_numbered:
            self.key_time = time
            self.key_wrap = self.key_counter
            self.fill_time()
        return <uint32_t>now_us

    cdef void fill_key(self) noexcept:
        """Makes the next unique key: prefix, time, counter. After 65,536 keys within one
        millisecond the time in the keys advances by one.
        """
        self.key_counter += 1
        if self.key_counter == self.key_wrap:
            self.key_time += 1
            self.fill_time()
        memcpy(self.key_text + PREFIX + 8, HEX_DIGITS + 2 * (self.key_counter >> 8), 2)
        memcpy(self.key_text + PREFIX + 10, HEX_DIGITS + 2 * (self.key_counter & 255), 2)

    cdef int measure(self, Route route, Parts *m) except -1:
        """Sets the lengths in `m` of the record and its properties. Raises IllegalMessage for a
        body or properties that are too long.
        """
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
                f"the body has {m.body_length} bytes, the store takes {self.max_body} "
                "(max_message_size)",
            )
        if length > MAX_PROPERTIES:
            raise IllegalMessage(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"the properties take {length} bytes, RocketMQ's records hold {MAX_PROPERTIES}",
            )
        m.properties_length = <uint32_t>length
        m.total = <uint32_t>(RECORD_FIXED - 2 * IPV4_HOST + self.born_host_length
                             + self.store_host_length + route.wide + m.body_length
                             + route.name_length + length)
        return 0

    cdef uint64_t measure_batch(self, Route route, list items, uint32_t *lengths,
                                bint *light) except? 0:
        """Checks a batch's limits. Returns the length of its records together, and sets the length
        of each in `lengths`, and `light` to whether any names light queues. Raises IllegalMessage.
        """
        cdef Parts m
        cdef uint64_t total = 0, bodies = 0
        cdef Py_ssize_t i
        if not items:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL, "a batch needs at least one message")
        light[0] = False
        for i in range(len(items)):
            take(items[i], &m)
            self.measure(route, &m)
            total += m.total
            bodies += m.body_length
            light[0] |= m.light
            if lengths != NULL:
                lengths[i] = m.total
        if bodies > self.max_body:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"the bodies of the batch have {bodies} bytes, the store takes "
                f"{self.max_body} at once (max_message_size): send fewer messages in a "
                "call",
            )
        return total

    cdef uint8_t *encode(self, uint8_t *r, Route route, uint32_t queue_id, const Parts *m) noexcept:
        """Writes one record at `r` and returns its end. `measure` has set the lengths in `m`."""
        cdef uint8_t *p
        cdef silo_new_record n
        n.body, n.body_length = m.body, <uint32_t>m.body_length
        n.topic, n.topic_length = route.name, route.name_length
        n.born_host, n.born_host_length = self.born_host, self.born_host_length
        n.store_host, n.store_host_length = self.store_host, self.store_host_length
        n.total, n.queue_id, n.flag, n.sys_flag = m.total, queue_id, m.flag, self.sys_flag
        n.properties_length = m.properties_length
        n.born_ms = m.born if m.born >= 0 else self.now_ms
        return self.encode_properties(silo_begin_record(r, &n), m)

    cdef uint8_t *encode_properties(self, uint8_t *p, const Parts *m) noexcept:
        """Writes the property pairs at `p`: UNIQ_KEY, TAGS, KEYS, the user's, and room for the
        record's CRC. Returns their end."""
        self.fill_key()
        p = put_pair(p, "UNIQ_KEY\x01", 9, self.key_text, KEY_DIGITS)
        if m.tags_length:
            p = put_pair(p, "TAGS\x01", 5, m.tags, m.tags_length)
        if m.keys_length:
            p = put_pair(p, "KEYS\x01", 5, m.keys, m.keys_length)
        memcpy(p, m.extra, m.extra_length)
        p += m.extra_length
        if self.append_crc:
            memcpy(p, CRC_PROPERTY, CRC_PROPERTY_SIZE)
            p += CRC_PROPERTY_SIZE
        return p
