"""`Producer`: sends messages to a store on this machine."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Literal, Self

from ..session import Connection
from ._sender import Sender, session_of
from .resend import RESTART_CHOICES
from .send_session import SendSession


class Producer(Sender):
    """Sends messages to the store in folder `store`.

    `ring_size` is in bytes, a multiple of 4096, by default the store's `ring_size`. It limits the
    bytes that the store has not answered yet; half of it limits a message or batch. `timeout`
    (seconds) is how long a call waits for space in the ring or for an answer, unless the call has
    its own `timeout`.

    A producer does not notice when single processes of the store are restarted. When the whole
    store stops, unanswered messages fail with StoreClosed if `on_restart` is `"error"`. With
    `"retry"` the producer waits up to `reconnect_timeout` seconds for the store and sends them
    again. A message may then be stored twice, with the same UNIQ_KEY.

    Threads may share a producer: each call is one step, and messages of a queue are in the order of
    the calls. A child made by `fork` cannot use its parent's producer.

    Raises StoreClosed when no store runs in the folder, IllegalMessage for a `ring_size` that the
    store does not allow, ValueError for another `on_restart`.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        *,
        ring_size: int | None = None,
        timeout: float = 3.0,
        on_restart: Literal["error", "retry"] = "error",
        reconnect_timeout: float = 30.0,
    ) -> None:
        if on_restart not in RESTART_CHOICES:
            raise ValueError(f"on_restart={on_restart!r}: 'error' or 'retry'")
        folder = os.fspath(store)
        size = -1 if ring_size is None else ring_size
        session = SendSession(
            lambda: Connection(folder, size),
            timeout_s=timeout,
            on_restart=on_restart,
            reconnect_timeout_s=reconnect_timeout,
        )
        super().__init__(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def store(self) -> str:
        """The store's folder, as it was given."""
        return session_of(self).folder

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for space or for an answer, unless the call has its own
        `timeout`.
        """
        return session_of(self).timeout_s

    @property
    def in_flight(self) -> int:
        """Bytes of the ring, padding included, that the store has not answered yet."""
        return session_of(self).in_flight

    @property
    def rejected(self) -> int:
        """The number of sends that the store has refused in this session, those of `send_oneway`
        among them. A batch counts once.
        """
        return session_of(self).ring.rejected

    def open_topic(self, topic: str) -> int:
        """Opens a topic before the first message is sent to it, and makes it if the store may.
        Returns how many queues can be written to.

        Call it again to learn of changes, such as a topic's number of queues. Each send opens a
        topic that is new to it. Raises IllegalMessage, StoreClosed.
        """
        return len(session_of(self).open_topic(topic).slots)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all messages sent so far are answered, and under SYNC_FLUSH are durable.

        Raises SendTimeout after `timeout` seconds (by default the producer's), StoreClosed.
        """
        session = session_of(self)
        session.flush(session.timeout_s if timeout is None else timeout)

    def close(self) -> None:
        """Ends the session. Messages that were published are still appended; futures that are open
        fail with StoreClosed. May be called again.
        """
        session_of(self).close()
