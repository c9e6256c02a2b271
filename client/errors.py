"""What a client raises besides the store's IllegalMessage."""

from ..store.errors import StoreError


class SendTimeout(StoreError, TimeoutError):
    """No answer, or no room in the ring, in time. A message that was published may still be
    stored.
    """


class StoreClosed(StoreError, ConnectionError):
    """The store is not there, or stopped while it had messages of this client: their fate is
    unknown.
    """


class SessionLost(StoreClosed):
    """The store closed this session alone: its ring made no sense, or a consumer kept a queue that
    it was to give back.
    """


class TopicDeleted(StoreError, LookupError):
    """The topic that is read here was deleted. One of the same name that was made since is another
    topic: open it anew.
    """
