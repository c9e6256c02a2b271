"""What a client raises besides the errors of the store (`store/errors.py`)."""

from ..store.errors import StoreError


class SendTimeout(StoreError, TimeoutError):
    """No answer, or no space in the ring, within the time-out. A message that was published may
    still be stored.
    """


class StoreClosed(StoreError, ConnectionError):
    """The store does not run, or stopped before it answered messages of this client. Whether those
    messages were stored is unknown.
    """


class SessionLost(StoreClosed):
    """The store ended this session alone: its ring was invalid, or a consumer kept a revoked queue.
    A member of a group also gets this when the store was killed, because it cannot tell the
    difference.
    """


class TopicDeleted(StoreError, LookupError):
    """The topic being read was deleted. A topic of the same name that was made since is another
    topic: open it anew.
    """
