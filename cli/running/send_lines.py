"""The loop of `silo send` over lines of standard input."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from ... import Message, SendFuture
from ...client.producing.producer import Producer
from ...store.errors import IllegalArgument, IllegalMessage, IllegalType, StoreError
from ...store.status import PutMessageStatus
from ..shared.common import put_json, say
from ..shared.outcome import Exit, Failure
from .json_lines import Line, parse_line

_CHUNK = 256 * 1024  # bytes asked of standard input at once
_BATCH_LINES = 256
_BATCH_BYTES = 128 * 1024
_IN_FLIGHT = 64  # batches
_PROGRESS_S = 0.25
#: What a call says of a line that it cannot send. Nothing of it was sent.
_ILLEGAL = (IllegalMessage, IllegalArgument, IllegalType)


class LineSender:
    """Sends lines in batches, many of them unanswered at once, and counts the answers."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        extras: dict[str, Any],
        route: dict[str, Any],
        *,
        as_objects: bool = False,
    ) -> None:
        self.producer = producer
        self.topic = topic
        self.extras = extras
        self.route = route
        self.as_objects = as_objects
        self.delayed = Line(b"", extras).delayed
        self.open: deque[tuple[SendFuture, int, int]] = deque()  # with its messages and bytes
        self.taken = 0  # lines given to the ring
        self.messages = 0
        self.bytes = 0
        self.not_durable = 0

    def feed(self, lines: list[bytes]) -> None:
        """Sends `lines`, in as few batches as the limits allow."""
        batch: list[Line] = []
        size = 0
        for line in lines:
            try:
                message = self._message(line)
            except _ILLEGAL as error:
                self._send(batch)
                raise self._at_line(error) from None
            delayed = message.delayed if self.as_objects else self.delayed
            full = size + len(message.body) > _BATCH_BYTES or len(batch) == _BATCH_LINES
            if batch and (full or delayed):
                self._send(batch)
                batch, size = [], 0
            batch.append(message)
            size += len(message.body)
            if delayed:
                self._send(batch)
                batch, size = [], 0
        self._send(batch)

    def _message(self, line: bytes) -> Line:
        return parse_line(line, self.extras) if self.as_objects else Line(line, self.extras)

    def _at_line(self, error: StoreError) -> IllegalMessage:
        status, why = PutMessageStatus.MESSAGE_ILLEGAL, str(error)
        if isinstance(error, IllegalMessage):
            status, why = error.status, error.why
        return IllegalMessage(status, f"line {self.taken + 1}: {why}")

    def _send(self, lines: list[Line]) -> None:
        if not lines:
            return
        if len(lines) > 1:
            try:
                items = [Message(body, **extras) if extras else body for body, extras in lines]
                future = self.producer.send_batch_async(self.topic, items, **self.route)
            except _ILLEGAL:
                # Nothing of the batch was sent. Sending line by line shows which line is illegal,
                # or that only their total size was.
                for line in lines:
                    self._send([line])
                return
        else:
            try:
                body, extras = lines[0]
                future = self.producer.send_async(self.topic, body, **extras, **self.route)
            except _ILLEGAL as error:
                raise self._at_line(error) from None
        self.taken += len(lines)
        self.open.append((future, len(lines), sum(len(line.body) for line in lines)))
        self.settle(_IN_FLIGHT)

    def settle(self, most: int) -> None:
        """Takes the answers that have arrived, and waits until at most `most` batches are
        unanswered.
        """
        while self.open and (len(self.open) > most or self.open[0][0].done()):
            future, count, size = self.open.popleft()
            result = future.result()
            self.messages += count
            self.bytes += size
            if result.status != PutMessageStatus.PUT_OK:
                self.not_durable += count


def send_lines(sender: LineSender, *, as_json: bool) -> int:
    """Sends the lines of standard input until it ends. Returns the exit status."""
    began = time.monotonic()
    talks = sys.stderr.isatty() and not sys.stdin.isatty()
    due = began + _PROGRESS_S
    if sys.stdin.isatty() and sys.stderr.isatty():
        say("reading lines from the terminal; Ctrl-D ends them")
    interrupted = False
    try:
        try:
            with _Input() as source:
                for lines in _lines(source):
                    sender.feed(lines)
                    if talks and time.monotonic() >= due:
                        due = time.monotonic() + _PROGRESS_S
                        print(f"\r{_summary(sender, began)} ", end="", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            interrupted = True
        except IllegalMessage:
            # Count the answers to messages that were sent before the bad line.
            sender.settle(0)
            raise
        sender.settle(0)
    finally:
        if talks:
            print("\r\x1b[K", end="", file=sys.stderr)
        say(_summary(sender, began))
    if as_json:
        seconds = time.monotonic() - began
        put_json(
            {
                "topic": sender.topic,
                "messages": sender.messages,
                "bytes": sender.bytes,
                "seconds": round(seconds, 6),
                "messages_per_second": round(sender.messages / seconds),
            }
        )
    if sender.not_durable:
        status = PutMessageStatus.FLUSH_DISK_TIMEOUT.name
        why = f"{status}: {sender.not_durable} messages were stored, but not synced in time"
        raise Failure(Exit.FAILED, why)
    return Exit.INTERRUPTED if interrupted else Exit.OK


def _summary(sender: LineSender, began: float) -> str:
    seconds = max(time.monotonic() - began, 1e-9)
    rate = sender.messages / seconds
    messages = "message" if sender.messages == 1 else "messages"
    return f"{sender.messages:,} {messages} stored in {seconds:.2f} s, {rate:,.0f} a second"


class _Input:
    """Reads standard input. Ctrl-C interrupts a wait for input at once.

    At any other time a first Ctrl-C takes effect at the next read. Between sending a batch and
    noting it, an exception would leave messages uncounted. A second Ctrl-C takes effect at once.
    """

    def __init__(self) -> None:
        self._waiting = False
        self._asked = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._waiting or self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def read(self) -> bytes:
        """The bytes that have arrived, at least one; none at the end of input.

        Raises KeyboardInterrupt when Ctrl-C was pressed, now or since the last read.
        """
        self._waiting = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            return os.read(0, _CHUNK)
        finally:
            self._waiting = False


def _lines(source: _Input) -> Iterator[list[bytes]]:
    """Yields lines without their ends, each time all lines that have arrived."""
    rest: list[bytes] = []  # the pieces of a line that has not ended yet
    while chunk := source.read():
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            whole = [b"".join(rest), *itertools.islice(others, len(others) - 1)]
            rest = [others[-1]]
            yield whole
    last = b"".join(rest)
    if last:
        yield [last]
