"""One producer process under load; run as a program.

    load.py STORE PRODUCER TOPICS RATE STOP_FILE REPORT

Sends to each topic in turn by every call a Producer has, until the file STOP_FILE exists or the
store is gone, at about RATE messages a second. Then writes to REPORT, as JSON, what the store
acknowledged, what was sent oneway, and every error that reached the caller. A StoreClosed at the
end is no error when ENDING=1 is in the environment: the test stops the store itself then.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silomq import Message, Producer, StoreClosed

if TYPE_CHECKING:
    from silomq import SendResult

QUEUES = 4
WINDOW = 16


def body_of(producer: int, sequence: int) -> bytes:
    """As `crash.checking.body_of`: this file is a program and imports nothing of the tests."""
    return b"%d:%d:" % (producer, sequence) + b"x" * (sequence * 37 % 400)


class Load:
    """A producer, and what it knows of its messages."""

    def __init__(self, store: str, number: int, topics: list[str]) -> None:
        self.number = number
        self.topics = topics
        self.next = 0
        self.acks: list[list[Any]] = []
        self.oneway: list[tuple[int, int]] = []
        self.errors: list[str] = []
        self.producer = Producer(store, ring_size=1 << 20, timeout=10.0)

    def message(self) -> tuple[int, str, int, bytes, str]:
        """A new message: sequence number, topic, queue, body, keys."""
        sequence = self.next
        self.next += 1
        topic = self.topics[sequence // 97 % len(self.topics)]
        body = body_of(self.number, sequence)
        return sequence, topic, sequence // 7 % QUEUES, body, f"p{self.number} s{sequence}"

    def note(self, result: SendResult, sequences: list[int]) -> None:
        ids, places = result.message_ids, result.offset_message_id.split(",")
        assert len(ids) == len(places) == len(sequences), result
        assert result.status.name == "PUT_OK", result
        for i, sequence in enumerate(sequences):
            physical = int(places[i][-16:], 16)
            if i == 0:
                assert physical == result.physical_offset
            self.acks.append(
                [
                    result.topic, result.queue_id, self.number, sequence,
                    result.queue_offset + i, physical, ids[i], places[i],
                ]
            )  # fmt: skip

    def send(self) -> None:
        sequence, topic, queue, body, keys = self.message()
        self.note(self.producer.send(topic, body, queue=queue, keys=keys, tags="sync"), [sequence])

    def send_window(self) -> None:
        """A window of asynchronous sends. What was acknowledged is noted also if one fails."""
        window = []
        for _ in range(WINDOW):
            sequence, topic, queue, body, keys = self.message()
            future = self.producer.send_async(topic, body, queue=queue, keys=keys)
            window.append((sequence, future))
        for sequence, future in window:
            self.note(future.result(), [sequence])

    def send_batch(self) -> None:
        sequence, topic, queue, body, keys = self.message()
        sequences, messages = [sequence], [Message(body, keys=keys, tags="batch")]
        for _ in range(8):
            sequence, _, _, body, keys = self.message()
            sequences.append(sequence)
            messages.append(Message(body, keys=keys))
        self.note(self.producer.send_batch(topic, messages, queue=queue), sequences)

    def send_oneway(self) -> None:
        for _ in range(5):
            sequence, topic, queue, body, keys = self.message()
            self.producer.send_oneway(topic, body, queue=queue, keys=keys)
            self.oneway.append((self.number, sequence))

    def run(self, rate: float, stop: Path) -> None:
        calls = (self.send, self.send_window, self.send, self.send_batch, self.send_oneway)
        began, turn = time.monotonic(), 0
        while not stop.exists():
            calls[turn % len(calls)]()
            turn += 1
            ahead = self.next / rate - (time.monotonic() - began)
            if ahead > 0.001:
                time.sleep(ahead)
        self.producer.flush(10.0)
        assert self.producer.rejected == 0
        self.producer.close()


def main() -> None:
    store, number, topics, rate, stop, report = sys.argv[1:]
    load = Load(store, int(number), topics.split(","))
    try:
        load.run(float(rate), Path(stop))
    except StoreClosed:
        # The fate of what was sent oneway is unknown.
        load.oneway.clear()
        if os.environ.get("ENDING") != "1":
            load.errors.append(traceback.format_exc())
    except Exception:  # noqa: BLE001 # the test reports it
        load.errors.append(traceback.format_exc())
    found = {"acks": load.acks, "oneway": load.oneway, "errors": load.errors}
    Path(report).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
