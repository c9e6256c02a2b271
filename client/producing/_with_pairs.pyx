# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sends messages with properties that the client itself adds: requests and replies."""

from silomq.client.producing._sender cimport Sender

from .. import arguments

cdef object OWN = arguments.OWN


def send_with_pairs(Sender sender not None, topic, body, bytes pairs not None, *, tags=None,
                    keys=None, properties=None, flag=0, queue=None, shard_key=None,
                    born_timestamp=None, timeout=OWN):
    """Publishes a message with the encoded properties `pairs`, which come last and so have
    precedence, and returns its SendFuture. Otherwise as `Sender.send_async`; `topic` may be a
    Delayed.
    """
    return sender.put(topic, body, tags, keys, properties, flag, queue, shard_key, born_timestamp,
                      True, True, sender.seconds(timeout), pairs)
