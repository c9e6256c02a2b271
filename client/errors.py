"""What a client raises besides the errors of the store (`store/errors.py`), and warns of."""

from ..store.errors import StoreError


class SendTimeout(StoreError, TimeoutError):
    """No answer, or no space in the ring, within the time-out. A message that was published may
    still be stored.
    """


class RequestTimeout(StoreError, TimeoutError):
    """No reply to a request within its time-out. The request may be stored, and may still be
    consumed.
    """


class StoreClosed(StoreError, ConnectionError):
    """The store does not run, or stopped before it answered messages of this client. Whether those
    messages were stored is unknown.
    """


class SessionLost(StoreClosed):
    """The store ended this session alone: its ring was invalid, a consumer kept a revoked queue, or
    its process was stopped for long. A member of a group also gets this when the store was killed,
    because it cannot tell the difference.
    """


class TopicDeleted(StoreError, LookupError):
    """The topic being read was deleted. A topic of the same name that was made since is another
    topic: open it anew.
    """


class NotHandedOut(StoreError, LookupError):
    """A message cannot be sent back: this consumer has not handed it out, it is acknowledged
    already, or its queue has gone to another member. Nothing was sent.
    """


class ForkedChild(StoreError, RuntimeError):
    """A client was used in a child of the process that opened it (`fork`). Open one in the child.
    The parent's client is not affected.
    """


def not_closed(client: str, store: str) -> ResourceWarning:
    """The warning of a client that is collected and was not closed. `client` is its kind."""
    return ResourceWarning(
        f"{client} of the store at {store} was not closed: call close, or use a with block"
    )
