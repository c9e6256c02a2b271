# Messages, routes, and a message's parts.

from libc.stdint cimport int64_t, uint8_t, uint32_t

# One message's parts while it is measured and written. The pointers are borrowed.
cdef struct Parts:
    const uint8_t *body
    const uint8_t *tags
    const uint8_t *keys
    const uint8_t *extra    # encoded pairs of user properties and WAIT
    Py_ssize_t body_length, tags_length, keys_length, extra_length
    uint32_t properties_length, total, flag
    int64_t born            # epoch ms, -1: the time of sending


cdef const uint8_t *text(object value, Py_ssize_t *length, str what) except NULL
cdef int take(object item, Parts *m) except -1


cdef class Message:
    cdef readonly object body, tags, keys, properties
    cdef readonly uint32_t flag
    cdef readonly int64_t born_timestamp
    cdef bytes extra
    cdef object keys_text


cdef class Route:
    cdef readonly str topic
    cdef readonly tuple slots
    cdef bytes encoded
    cdef uint32_t turn
    cdef uint32_t queue_count
    cdef const uint8_t *name
    cdef uint32_t name_length
    cdef bint wide
    cdef unsigned int[::1] slot_array
    cdef uint32_t *slot_of

    cdef uint32_t choose(self, object queue, object shard_key) except? 0xFFFFFFFF
