# A sender's own references to parts of its session.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from silomq.client.producing._encode cimport Encoder
from silomq.client.producing._future cimport SendFuture
from silomq.client.producing._message cimport Route
from silomq.client.producing._ring cimport Ring


cdef class Sender:
    cdef object session         # a SendSession
    cdef Ring ring              # the session's, like encoder and routes
    cdef Encoder encoder
    cdef dict routes            # topic (or Delayed) -> Route
    cdef double timeout_s

    cdef double seconds(self, object timeout) except? -1
    cdef Route route(self, object topic)
    cdef uint8_t *reserve(self, uint64_t length, double timeout_s) except NULL
    cdef SendFuture promise(self, Route route, uint32_t queue_id, uint64_t length,
                            uint32_t record_bytes, uint32_t count, bint wait_store)
    cdef SendFuture put(self, object topic, object body, object tags, object keys,
                        object properties, object flag, object queue, object shard_key,
                        object born, bint wait_store, bint want, double timeout_s,
                        bytes pairs=*)
    cdef SendFuture put_delayed(self, object topic, object body, object tags, object keys,
                                object properties, object flag, object queue, object shard_key,
                                object born, bint wait_store, bint want, double timeout_s,
                                object delay)
    cdef SendFuture put_batch(self, object topic, object messages, object queue, object shard_key,
                              bint want, double timeout_s)
    cdef int open_light_queues(self, object topic, list items) except -1
