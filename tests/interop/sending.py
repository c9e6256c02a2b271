"""What the stores of these tests hold: messages of all kinds, each a function of its producer and
number; and, run as a program, the producer that sends them.

    sending.py STORE PRODUCER COUNT REPORT

Sends COUNT messages and writes to REPORT, as JSON, what the store answered to each. When the store
goes away under it, it reports what was answered until then.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silomq import Message, Producer, StoreClosed

if TYPE_CHECKING:
    from silomq import SendResult

TOPICS = ("orders", "events-2", "%RETRY%readers", "a")
QUEUES = 4
WORDS = ("plain", "größe", "заказ", "注文", "🔔", "a/b", "x=y", "ß")
SHARED_BY = 40  # messages with the same key, at most 64: what RocketMQ gives for one query
BATCH = 9
WINDOW = 27
PAUSE_EVERY = 4_000  # messages; pauses keep the times in a queue apart
PAUSE_S = 0.02
LONG_AGO_MS = 1_700_000_000_000
_SIZES = (10, 10, 60, 60, 200, 200, 200, 600, 600, 1_500)
_BLOCK = random.Random(3).randbytes(1 << 17)


@dataclass(frozen=True)
class Sent:
    """One message as it was given to the producer."""

    producer: int
    sequence: int
    topic: str
    queue: int
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    born: int | None = None

    @property
    def sha(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    def message(self) -> Message:
        return Message(
            self.body, self.tags, self.keys or None, self.properties, self.flag, self.born
        )


def message_of(producer: int, sequence: int) -> Sent:
    """The message with this number; those of one batch or window share topic and queue."""
    group = sequence // BATCH
    size = _SIZES[sequence % len(_SIZES)]
    if sequence % 1_009 == 0:
        size = 30_000
    size = sequence * 7919 % size
    at = sequence * 31 % 65_536
    word = WORDS[sequence % 7 % len(WORDS)]
    keys: tuple[str, ...] = ()
    if sequence % 11:
        keys = (f"m-{producer}-{sequence}", f"{word}-{producer}-{sequence // SHARED_BY}")
    return Sent(
        producer,
        sequence,
        TOPICS[group % len(TOPICS)],
        group // len(TOPICS) % QUEUES,
        b"%d:%d:" % (producer, sequence) + _BLOCK[at : at + size],
        tags=WORDS[sequence % len(WORDS)] if sequence % 3 else None,
        keys=keys,
        properties={f"colour {word}": f"värde {sequence}"} if sequence % 5 == 0 else {},
        flag=sequence * 2654435761 % (1 << 31) if sequence % 4 == 0 else 0,
        born=LONG_AGO_MS + sequence if sequence % 6 == 0 else None,
    )


class Sender:
    """Sends through every call that answers, and notes the answers."""

    def __init__(self, store: str, number: int) -> None:
        self.number = number
        self.next = 0
        #: sequence, queue offset, physical offset, store timestamp, UNIQ_KEY, msgId
        self.acks: list[tuple[int, int, int, int, str, str]] = []
        self.producer = Producer(store, timeout=20.0)

    def note(self, result: SendResult, first: int) -> None:
        ids, places = result.message_ids, result.offset_message_id.split(",")
        for i, place in enumerate(places):
            self.acks.append(
                (
                    first + i, result.queue_offset + i, int(place[-16:], 16),
                    result.store_timestamp, ids[i], place,
                )
            )  # fmt: skip

    def take(self) -> Sent:
        self.next += 1
        return message_of(self.number, self.next - 1)

    def send_batch(self) -> None:
        first, batch = self.next, [self.take() for _ in range(BATCH)]
        topic, queue = batch[0].topic, batch[0].queue
        result = self.producer.send_batch(topic, [m.message() for m in batch], queue=queue)
        self.note(result, first)

    def send_window(self, count: int) -> None:
        window = []
        for _ in range(count):
            m = self.take()
            future = self.producer.send_async(
                m.topic, m.body, tags=m.tags, keys=m.keys or None, properties=m.properties,
                flag=m.flag, queue=m.queue, born_timestamp=m.born,
            )  # fmt: skip
            window.append((m.sequence, future))
        for sequence, future in window:
            self.note(future.result(), sequence)

    def run(self, count: int) -> None:
        paused = 0
        while self.next < count:
            if self.next + BATCH <= count:
                self.send_batch()
            self.send_window(min(WINDOW, count - self.next))
            if self.next // PAUSE_EVERY > paused:
                paused = self.next // PAUSE_EVERY
                time.sleep(PAUSE_S)
        self.producer.close()


def main() -> None:
    store, number, count, report = sys.argv[1:]
    sender = Sender(store, int(number))
    closed = False
    try:
        sender.run(int(count))
    except StoreClosed:
        closed = True
    found: dict[str, Any] = {
        "producer": sender.number,
        "sent": sender.next,
        "closed": closed,
        "acks": sender.acks,
    }
    Path(report).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
