# The sending calls.

from libc.stdint cimport uint32_t, uint64_t

from silomq.client.producing._future cimport SendFuture
from silomq.client.producing._message cimport Route
from silomq.client.producing._ring cimport RingProducer


cdef class Sender(RingProducer):
    cdef Route route(self, object topic)
    cdef SendFuture put(self, object topic, object body, object tags, object keys,
                        object properties, uint32_t flag, object queue, object shard_key,
                        object born, bint wait_store, bint want, double timeout_s,
                        bytes pairs=*)
    cdef SendFuture put_delayed(self, object topic, object body, object tags, object keys,
                                object properties, uint32_t flag, object queue, object shard_key,
                                object born, bint wait_store, bint want, double timeout_s,
                                object delay)
    cdef uint64_t measure_batch(self, Route route, list items, uint32_t *lengths) except? 0
    cdef SendFuture put_batch(self, object topic, object messages, object queue, object shard_key,
                              bint want, double timeout_s)
