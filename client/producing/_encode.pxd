# The encoder's state.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from silomq.client.producing._message cimport Parts, Route, take
from silomq.store.record._new_record cimport silo_begin_record, silo_new_record

cdef extern from "shm/words.h" nogil:
    int64_t silo_realtime_us()

cdef extern from "store/record/record.h" nogil:
    int RECORD_FIXED, FLAG_BORN_V6, FLAG_STORE_V6, CRC_PROPERTY_SIZE

cdef enum:
    MAX_PROPERTIES = 32767
    UNIQUE_KEY_PAIR = 42    # "UNIQ_KEY" 0x01, 32 digits, 0x02
    IPV4_HOST = 8           # bytes of address and port
    KEY_DIGITS = 32
    PREFIX = 20             # digits of a unique key that stay the same within a producer


cdef class Encoder:
    cdef uint8_t store_host[20]
    cdef uint8_t born_host[20]
    cdef uint32_t store_host_length, born_host_length, sys_flag
    cdef uint32_t max_body
    cdef bint append_crc
    cdef bytes store_host_bytes, key_prefix
    cdef uint8_t key_text[32]
    cdef int64_t key_epoch_ms
    cdef uint32_t key_time
    cdef uint16_t key_counter, key_wrap
    cdef bint keys_numbered     # the caller numbers the keys (`number_keys`): no time in them
    cdef int64_t now_ms

    cdef void fill_time(self) noexcept
    cdef uint32_t refresh_time(self) noexcept
    cdef void fill_key(self) noexcept
    cdef int measure(self, Route route, Parts *m) except -1
    cdef uint64_t measure_batch(self, Route route, list items, uint32_t *lengths,
                                bint *light) except? 0
    cdef uint8_t *encode_properties(self, uint8_t *p, const Parts *m) noexcept
    cdef uint8_t *encode(self, uint8_t *r, Route route, uint32_t queue_id, const Parts *m) noexcept
