"""A producer that sends by every call there is and notes what it is answered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from support.checking.sent import Begun, Sent
from support.load.messages import GROUP, KINDS, Content

from silomq import Producer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from silomq import SendFuture

WINDOW = 3 * GROUP
PAUSE_EVERY = 4_000  # messages; pauses keep the times in a queue apart
PAUSE_S = 0.02


class Sender:
    """Producer number `number`: its messages 0, 1, 2, ... of one kind.

    They go to the queues of `topics` in turn, GROUP of them to each. A batch goes where its first
    message goes.
    """

    def __init__(
        self,
        store: Path | str,
        number: int,
        topics: Sequence[str],
        *,
        kind: str = "short",
        queues: int = 4,
        sent: Sent | None = None,
        **producer: Any,
    ) -> None:
        self.number = number
        self.topics = topics
        self.kind = kind
        self.queues = queues
        self.next = 0
        self.sent = Sent() if sent is None else sent
        self.producer = Producer(store, **producer)

    def place(self, sequence: int) -> tuple[str, int]:
        """Topic and queue of a message."""
        group = sequence // GROUP
        return self.topics[group % len(self.topics)], group // len(self.topics) % self.queues

    def take(self, topic: str, queue: int) -> tuple[int, Content]:
        """The next message, which is begun with this."""
        sequence = self.next
        self.next += 1
        self.sent.begin(Begun(self.number, sequence, topic, queue, self.kind))
        return sequence, KINDS[self.kind](self.number, sequence)

    def next_bytes(self, count: int) -> int:
        """Bytes of the bodies of the next so many messages."""
        following = range(self.next, self.next + count)
        return sum(len(KINDS[self.kind](self.number, i).body) for i in following)

    def _submit(self) -> tuple[int, SendFuture]:
        topic, queue = self.place(self.next)
        sequence, content = self.take(topic, queue)
        body, tags, keys, properties, flag, born = content
        future = self.producer.send_async(
            topic, body, tags=tags, keys=keys or None, properties=properties, flag=flag,
            queue=queue, born_timestamp=born,
        )  # fmt: skip
        return sequence, future

    def send(self, count: int = 1) -> None:
        """So many messages, each after the answer to the one before."""
        for _ in range(count):
            sequence, future = self._submit()
            self.sent.acknowledge(future.result(), self.number, [sequence])

    def send_window(self, count: int = WINDOW) -> None:
        """So many messages at once. What was answered is noted also if a later one fails."""
        for sequence, future in [self._submit() for _ in range(count)]:
            self.sent.acknowledge(future.result(), self.number, [sequence])

    def send_batch(self, count: int = GROUP) -> None:
        """So many messages in one batch."""
        topic, queue = self.place(self.next)
        taken = [self.take(topic, queue) for _ in range(count)]
        result = self.producer.send_batch(topic, [c.message() for _, c in taken], queue=queue)
        self.sent.acknowledge(result, self.number, [sequence for sequence, _ in taken])

    def send_oneway(self, count: int = GROUP) -> None:
        """So many messages without an answer."""
        for _ in range(count):
            topic, queue = self.place(self.next)
            sequence, content = self.take(topic, queue)
            body, tags, keys, properties, flag, born = content
            self.producer.send_oneway(
                topic, body, tags=tags, keys=keys or None, properties=properties, flag=flag,
                queue=queue, born_timestamp=born,
            )  # fmt: skip
            self.sent.oneway.append((self.number, sequence))

    def run_until(self, stop: Path, rate: float) -> None:
        """Every call in turn, at about `rate` messages a second, until the file `stop` exists."""
        calls = (self.send, self.send_window, self.send, self.send_batch, self.send_oneway)
        began, turn = time.monotonic(), 0
        while not stop.exists():
            calls[turn % len(calls)]()
            turn += 1
            ahead = self.next / rate - (time.monotonic() - began)
            if ahead > 0.001:
                time.sleep(ahead)
        self.close()

    def run_to(self, count: int) -> None:
        """So many messages by the calls that answer, as fast as they go."""
        paused = 0
        while self.next < count:
            if self.next + GROUP <= count:
                self.send_batch()
            self.send_window(min(WINDOW, count - self.next))
            if self.next // PAUSE_EVERY > paused:
                paused = self.next // PAUSE_EVERY
                time.sleep(PAUSE_S)
        self.close()

    def close(self) -> None:
        """Waits for what was sent one-way, of which nothing may be refused."""
        self.producer.flush(10.0)
        assert self.producer.rejected == 0
        self.producer.close()
