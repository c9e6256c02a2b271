"""`silo send`: one message from the command line, or one for each line of standard input."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import click

from ... import Message, SendFuture
from ...client.admin.admin import Admin
from ...client.producing.producer import Producer
from ...client.producing.send_result import SendResult
from ...store.errors import IllegalMessage, StoreError
from ...store.names import validate_topic
from ...store.status import PutMessageStatus
from ..shared.common import json_option, put_json, put_line, say, store_option
from ..shared.outcome import Exit, Failure

_EPILOG = """\b
Examples:
  silo send orders 'one coffee' --tags drinks --keys order-17
  silo send orders --property shop=lisbon < orders.jsonl
  tail -f app.log | silo send logs
"""
_CHUNK = 256 * 1024  # bytes asked of standard input at once
_BATCH_LINES = 256
_BATCH_BYTES = 128 * 1024
_IN_FLIGHT = 64  # batches
_PROGRESS_S = 0.25


@click.command(epilog=_EPILOG, short_help="Send a message, or lines of standard input.")
@click.argument("topic")
@click.argument("body", required=False)
@store_option
@click.option("--tags", metavar="TAG", help="Tag of the messages.")
@click.option("--keys", multiple=True, metavar="KEY", help="Key for look-ups; may be repeated.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="User property; may be repeated.",
)
@click.option("--queue", type=click.IntRange(min=0), help="Queue to send to.")
@click.option("--shard-key", metavar="KEY", help="Choose the queue by the hash of KEY.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the store.",
)
@json_option
def send(
    *,
    topic: str,
    body: str | None,
    store: Path,
    tags: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    queue: int | None,
    shard_key: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Send BODY to TOPIC, or each line of standard input when BODY is not given.

    With neither --queue nor --shard-key the queues take turns: message by message, or batch by
    batch when several lines arrive at once. Lines may hold any bytes; the line feed is not sent.
    """
    validate_topic(topic)
    if queue is not None and shard_key is not None:
        raise click.UsageError("--queue and --shard-key exclude each other")
    extras: dict[str, Any] = {
        "tags": tags,
        "keys": " ".join(keys) or None,
        "properties": _pairs(properties),
    }
    route: dict[str, Any] = {"queue": queue, "shard_key": shard_key}
    with Producer(store, timeout=timeout) as producer:
        try:
            if body is not None:
                result = producer.send(topic, os.fsencode(body), **extras, **route)
                return _print_result(result, as_json=as_json)
            return _send_lines(LineSender(producer, topic, extras, route), as_json=as_json)
        except IllegalMessage as error:
            raise _disk_error(store, error) or error from None


def _pairs(properties: tuple[str, ...]) -> dict[str, str] | None:
    found = {}
    for item in properties:
        name, equals, value = item.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--property {item}: write it as NAME=VALUE")
        found[name] = value
    return found or None


def _disk_error(store: Path, refused: IllegalMessage) -> OSError | None:
    """The error for which the store could not make its next file, if it refused the message for
    that.
    """
    if refused.status != PutMessageStatus.CREATE_MAPPED_FILE_FAILED:
        return None
    try:
        with Admin(store) as admin:
            number = admin.status()["allocate_error"]
    except StoreError:
        return None
    if not number:
        return None
    why = f"{refused.status.name}: the store cannot make its next file: {os.strerror(number)}"
    return OSError(number, why, os.fspath(store))


def _print_result(result: SendResult, *, as_json: bool) -> int:
    if as_json:
        put_json(
            {
                "status": result.status.name,
                "topic": result.topic,
                "queue_id": result.queue_id,
                "queue_offset": result.queue_offset,
                "physical_offset": result.physical_offset,
                "message_id": result.message_id,
                "offset_message_id": result.offset_message_id,
                "store_timestamp": result.store_timestamp,
            }
        )
    else:
        place = f"{result.topic}[{result.queue_id}]@{result.queue_offset}"
        put_line(f"{result.status.name} {place} {result.message_id}")
    return Exit.OK if result.status == PutMessageStatus.PUT_OK else Exit.FAILED


class LineSender:
    """Sends lines in batches, many of them unanswered at once, and counts the answers."""

    def __init__(
        self, producer: Producer, topic: str, extras: dict[str, Any], route: dict[str, Any]
    ) -> None:
        self.producer = producer
        self.topic = topic
        self.extras = extras
        self.route = route
        self.plain = not any(extras.values())
        self.open: deque[tuple[SendFuture, int, int]] = deque()  # with its messages and bytes
        self.taken = 0  # lines given to the ring
        self.messages = 0
        self.bytes = 0
        self.not_durable = 0

    def feed(self, lines: list[bytes]) -> None:
        """Sends `lines`, in as few batches as the limits allow."""
        start = size = 0
        for i, line in enumerate(lines):
            if i > start and (size + len(line) > _BATCH_BYTES or i - start == _BATCH_LINES):
                self._send(lines[start:i])
                start, size = i, 0
            size += len(line)
        self._send(lines[start:])

    def _send(self, lines: list[bytes]) -> None:
        if len(lines) > 1:
            items = lines if self.plain else [Message(line, **self.extras) for line in lines]
            try:
                future = self.producer.send_batch_async(self.topic, items, **self.route)
            except IllegalMessage:
                # Nothing of the batch was sent. Sending line by line shows which line is illegal,
                # or that only their total size was.
                for line in lines:
                    self._send([line])
                return
        else:
            try:
                future = self.producer.send_async(self.topic, lines[0], **self.extras, **self.route)
            except IllegalMessage as error:
                where = f"line {self.taken + 1}: {error.why}"
                raise IllegalMessage(error.status, where) from None
        self.taken += len(lines)
        self.open.append((future, len(lines), sum(map(len, lines))))
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


def _send_lines(sender: LineSender, *, as_json: bool) -> int:
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
