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

    `ring_size` (bytes, a multiple of 4096; by default the store's `ring_size`) bounds what can be
    under way at once, and half of it the longest message or batch. `timeout` (seconds) is how long
    a call waits for room in the ring or for an answer, unless it says otherwise.

    A restart of any of the store's processes is not noticed. When the whole store stops,
    `on_restart="error"` raises StoreClosed for what was not answered; `"retry"` waits up to
    `reconnect_timeout` seconds for it to come back and sends again what was not answered (which may
    then be stored twice, with the same UNIQ_KEY).

    Threads may share a producer: each call is one step, and messages of a queue are in the order of
    the calls. A child made by `fork` cannot use its parent's producer.

    Raises StoreClosed when no store runs in the folder, IllegalMessage for a `ring_size` that the
    store does not give, ValueError for another `on_restart`.
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
        """Seconds that a call waits for room or for an answer, unless it says otherwise."""
        return session_of(self).timeout_s

    @property
    def in_flight(self) -> int:
        """Bytes of the ring, padding included, that the store has not answered yet."""
        return session_of(self).in_flight

    @property
    def rejected(self) -> int:
        """How many sends the store has refused since it started, those of `send_oneway` among them.
        A batch counts once.
        """
        return session_of(self).ring.rejected

    def open_topic(self, topic: str) -> int:
        """Opens a topic before the first message is sent to it, and makes it if the store may;
        returns how many queues can be written to.

        Also makes known what has changed, such as a topic's number of queues. Each send does this
        when it first meets a topic. Raises IllegalMessage, StoreClosed.
        """
        return len(session_of(self).open_topic(topic).slots)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until everything sent so far was answered, under SYNC_FLUSH durable.

        Raises SendTimeout after `timeout` seconds (by default the producer's), StoreClosed.
        """
        session = session_of(self)
        session.flush(session.timeout_s if timeout is None else timeout)

    def close(self) -> None:
        """Ends the session. What was published is still appended; futures that are open fail with
        StoreClosed. May be called again.
        """
        session_of(self).close()
