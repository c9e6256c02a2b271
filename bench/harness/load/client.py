"""What a client in Python must do to be a worker: `Sender` and `Reader`.

A client's module is a program: its last lines are

    if __name__ == "__main__":
        main(open_sender, open_reader)

with `main` of `worker.py`, and its target's `Running.worker` returns
`[sys.executable, "-P", "-m", "silomq.bench.harness.targets.peers.kafka_client"]`. `worker.py` has
the schedule, the latencies and the ticks. A client only sends and reads, on one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._fates import Fates
    from .columns import Columns
    from .protocol import Order

#: A body as a client hands it out.
Bytes = bytes | memoryview


class Sender(Protocol):
    """A connection that sends for one worker. Errors of the server or the client are raised, of any
    kind: the worker counts them and goes on.

    A client has the methods for the calls that its target names in `Facts.send_calls`; the others
    may raise NotImplementedError. `tag` and `key` are "" if the workload has none.
    """

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        """Hands a message over without waiting for anything."""
        ...

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        """Sends a message, and returns when it is acknowledged."""
        ...

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        """Begins to send a message. When its fate is known, the sender calls `Fates.stored` or
        `Fates.refused` with `due`, here or in `wait`, on the same thread: the latency ends then.
        The worker keeps the window: it waits when `Order.window` messages are under way.
        """
        ...

    def wait(self, timeout_s: float) -> None:
        """Takes answers of messages that were begun. Waits for the first of them at most
        `timeout_s`; 0 takes only what is there.
        """
        ...

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        """Sends messages with one call, and returns when all of them are acknowledged."""
        ...

    def finish(self, timeout_s: float) -> None:
        """Waits until the server has everything that was sent one-way. Messages that were begun are
        waited for by the worker.
        """
        ...

    def close(self) -> None: ...


class OneWayBatches(Protocol):
    """What a Sender has as well whose target names the call "batch-oneway"."""

    def batch_oneway(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        """Hands messages over with one call, without waiting for anything."""
        ...


class Reader(Protocol):
    """A connection that reads for one worker. It is a member of the group `Order.group`, or reads
    all queues of its own if that is "". A group that is new begins at the first message.
    """

    def read(self, timeout_s: float) -> Sequence[Bytes] | Columns:
        """The bodies of the next messages, `Order.most` at most; none after `timeout_s`. What the
        last call returned is acknowledged by now: a body is valid until the next call.
        """
        ...

    def listen(self, take: Callable[[Bytes], None]) -> None:
        """Begins to call `take` with each body, on a thread of the client, until `close`. Only for
        the calls "listen" and "iterate".
        """
        ...

    def close(self) -> None: ...


class OpenSender(Protocol):
    """Makes a sender that is connected, and the versions of the client's library."""

    def __call__(self, order: Order, fates: Fates) -> tuple[Sender, dict[str, str]]: ...


class OpenReader(Protocol):
    """Makes a reader that is connected and ready to get messages, and the versions of the client's
    library.
    """

    def __call__(self, order: Order) -> tuple[Reader, dict[str, str]]: ...
