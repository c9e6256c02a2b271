# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sends the halves of transactions: messages that wait in the store until they are committed."""

from silomq.client.producing._message cimport Route
from silomq.client.producing._sender cimport Sender

from ...store.names import TRANS_HALF_TOPIC
from ...store.transactions.half import encode_half
from .. import arguments
from .message_properties import Delayed

cdef object OWN = arguments.OWN


def send_half(Sender sender not None, topic, body, *, group, tags=None, keys=None,
              properties=None, flag=0, queue=None, shard_key=None, born_timestamp=None,
              immunity_s=0, timeout=OWN):
    """Sends a message as the half of a transaction of the producer group `group`, and waits for the
    store's answer, a SendResult: where the half is. `immunity_s` is how long its producers are not
    asked about it; 0 leaves that to the store. Otherwise as `Producer.send`.
    """
    cdef double seconds = sender.seconds(timeout)
    cdef bytes pairs
    if type(topic) is not str:
        topic = arguments.text("topic", topic)
    queue = sender.route(topic).choose(queue, shard_key)
    pairs = encode_half(topic, queue, group, immunity_s)
    return sender.put(Delayed(TRANS_HALF_TOPIC, topic), body, tags, keys, properties, flag, 0, None,
                      born_timestamp, True, True, seconds, pairs).wait(seconds)
