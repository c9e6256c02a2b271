# Messages, routes, and a message's parts.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef extern from "Python.h":
    long PyLong_AsLongAndOverflow(object number, int *overflow) except? -1

# One message's parts while it is measured and written. The pointers are borrowed.
cdef struct Parts:
    const uint8_t *body
    const uint8_t *tags
    const uint8_t *keys
    const uint8_t *extra    # encoded pairs of user properties and WAIT
    Py_ssize_t body_length, tags_length, keys_length, extra_length
    uint32_t properties_length, total
    int32_t flag
    int64_t born            # epoch ms, -1: the time of sending
    bint light              # whether it names light queues


cdef const uint8_t *text(str value, Py_ssize_t *length, str what) except NULL
cdef int64_t unusual_number(object value, str what, int64_t least, int64_t most) except? -1


cdef inline int64_t number(object value, str what, int64_t least, int64_t most) except? -1:
    """A whole number from `least` to `most`. Raises IllegalArgument, IllegalType."""
    cdef int overflow = 0
    cdef long found
    if type(value) is int:
        found = PyLong_AsLongAndOverflow(value, &overflow)
        if overflow == 0 and least <= found <= most:
            return found
    return unusual_number(value, what, least, most)


cdef int take(object item, Parts *m) except -1
cdef str plain_text(object value, str what)
cdef str plain_keys(object keys)
cdef bint truth(object value, str what) except -1
cdef int check_alone(object tags, object keys, object properties, object flag,
                     object born) except -1
cdef list in_batch(object messages, Py_ssize_t most)


cdef class Message:
    cdef readonly object body, tags, keys, properties
    cdef readonly int32_t flag
    cdef readonly int64_t born_timestamp
    cdef bytes extra            # encoded properties
    cdef bytes stored           # the same, with room for the offsets in light queues
    cdef object light           # LightQueues, or None
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
