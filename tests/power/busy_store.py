"""A store that does everything at once while its disk operations are recorded: messages, delayed
ones with a level and with a time, cancels, transactions, deletions of a topic, cleaning, kills of
each process.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from power.busy_transactions import COMMIT, OPEN, PAID, ROLLBACK, transaction_body
from power.recorded_store import Recorded, Said, known_at_the_cut, say
from support.harness import eventually
from support.load.sender import Sender
from support.small_settings import ALWAYS

from silomq import Admin, Producer, TransactionProducer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from support.checking.sent import Sent

KILLED = (
    *("schedule", "transactions", "flush", "clean", "append", "registry", "reput"),
    *("commit", "allocate"),
)
#: The topic that is deleted and made again, and the one that is never deleted and soon cleaned.
DOOMED, EARLY = "doomed", "early"
#: Where delayed messages go.
LATER = "later"
LEVEL, TIMER, CANCELLED, FAR = "level", "timer", "cancelled", "far"
_FAR_MS = 3_600_000
#: Files go as soon as they are full and durable, one at a time.
CLEANED: dict[str, Any] = {
    "file_reserved_time_h": 0,
    "delete_when": ALWAYS["delete_when"],
    "clean_resource_interval_ms": 200,
    "delete_file_batch_max": 1,
    "delete_commit_log_files_interval_ms": 1,
    "delete_consume_queue_files_interval_ms": 1,
    "clean_file_forcibly_enable": "false",
    "message_delay_level": "1s 2s",
    "max_topics": 128,  # each generation of the doomed topic takes a place
    "transaction_timeout_ms": 500,
    "transaction_check_interval_ms": 500,
    "transaction_check_max": 1000,
}
POOLED: dict[str, Any] = {
    "transient_store_pool_enable": "true",
    "transient_store_pool_size": 3,
    "commit_commit_log_thorough_interval_ms": 20,
}


@dataclass
class Known:
    """What clients knew at the time of a cut.

    Delayed messages have numbers: `delayed` says how each waits, `waiting` where the store said
    that it lies in the log. `cancelled` says of a number whether the cancel was answered. Messages
    of the doomed topic have a generation: `doomed` has those of each, with places in the log, -1
    without an answer. `deleting` and `deleted` are the generations whose deletion was asked for,
    and answered. `begun` has the kinds of transactions by number, `decided` the place of the half
    of each whose decision was answered.
    """

    sent: Sent
    delayed: dict[int, str] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    cancelled: dict[int, bool] = field(default_factory=dict)
    doomed: dict[int, dict[int, int]] = field(default_factory=dict)
    deleting: int = -1
    deleted: int = -1
    begun: dict[int, str] = field(default_factory=dict)
    decided: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at_the_cut(cls, notes: Iterable[bytes]) -> Known:
        notes = list(notes)
        known = cls(known_at_the_cut(notes))
        for note in notes:
            for word, about in msgspec.json.decode(note).items():
                if word == "delayed":
                    known.delayed[about[0]] = about[1]
                elif word == "waiting":
                    known.waiting[about[0]] = about[1]
                elif word == "cancelled":
                    known.cancelled[about[0]] = about[1]
                elif word == "transaction":
                    known.begun[about[0]] = about[1]
                elif word == "decided":
                    known.decided[about[0]] = about[1]
                elif word == "doomed":
                    generation, number, place = about
                    known.doomed.setdefault(generation, {})[number] = place
                elif word == "deleting":
                    known.deleting = about
                elif word == "deleted":
                    known.deleted = about
        return known


def delayed_body(number: int) -> bytes:
    return b"delayed:%d:" % number + b"d" * (number * 37 % 200)


def doomed_body(generation: int, number: int) -> bytes:
    return b"doomed:%d:%d" % (generation, number)


class Busy(Recorded):
    """The recording of such a store. In its first life each process is killed, and log files are
    cleaned away. Then all processes are killed at once. In the second life messages wait that are
    due long after the recording.
    """

    look_s = 0.02

    def __init__(self, folder: Path, mode: str, **settings: object) -> None:
        super().__init__(folder, mode, **{**CLEANED, **settings})
        self.quiet = threading.Event()
        self.numbers: Iterator[int] = iter(range(10**6))
        self.generation = 0

    def live(self) -> None:
        self.store.start()
        self.early()
        # A minute in which a timer waits holds all log files from its first timer on.
        self._one_life(1, (LEVEL, LEVEL, CANCELLED), (COMMIT, ROLLBACK))
        self.store.crash()
        self.store.start()
        self._one_life(2, (LEVEL, TIMER, CANCELLED, FAR), (COMMIT, ROLLBACK, OPEN))

    def _one_life(self, life: int, kinds: tuple[str, ...], ends: tuple[str, ...]) -> None:
        self.quiet.clear()
        self.at_once(
            *((self._kill, life), (self._send, life), (self._delay, life, kinds)),
            *((self._delete, life), (self._transact, ends)),
        )

    def early(self) -> None:
        """Messages that are cleaned away first; what is left of them is their queue's offset."""
        sender = Sender(
            self.store.path, 100, (EARLY,), kind="short", queues=1, sent=Said(self.recorder)
        )
        sender.send_batch()
        sender.close()

    def _kill(self, life: int) -> None:
        index = self.store.path / "index"
        seen: set[Path] = set()
        try:
            for actor in KILLED:
                time.sleep(0.3)
                self.store.replace(actor)
                seen.update(index.iterdir())
            time.sleep(0.5)
            if life == 1:  # in the next one messages wait for hours, and hold the log
                removed = partial(self.store.control.load, "files_removed")
                eventually(lambda: removed() and not min(seen).exists(), "files are cleaned away")
        finally:
            self.quiet.set()

    def _send(self, life: int) -> None:
        rng = random.Random(life)
        sender = self.sender(life)
        while not self.quiet.is_set():
            if rng.random() < 0.3 and sender.next_bytes(4) < 1 << 16:
                sender.send_batch(4)
            else:
                sender.send_window(rng.choice((1, 4)))
            time.sleep(0.01)
        sender.close()

    def _delay(self, life: int, kinds: tuple[str, ...]) -> None:
        rng = random.Random(life)
        with Producer(self.store.path, timeout=30.0) as producer:
            while not self.quiet.is_set():
                number = next(self.numbers)
                kind = kinds[number % len(kinds)]
                how: dict[str, Any] = {"delay_ms": rng.randrange(100, 900)}
                if kind == LEVEL:
                    how = {"delay_level": rng.choice((1, 2))}
                elif kind in {CANCELLED, FAR}:
                    # Each kind has minutes of its own, so cancelled ones hold no log file back.
                    how = {"delay_ms": _FAR_MS * (1 + (kind == FAR)) + number % 3 * 60_000}
                self._note("delayed", [number, kind])
                sent = producer.send(LATER, delayed_body(number), **how)
                self._note("waiting", [number, sent.physical_offset])
                if kind == CANCELLED:
                    self._note("cancelled", [number, False])
                    producer.cancel(sent)
                    self._note("cancelled", [number, True])
                time.sleep(0.015)

    def _transact(self, ends: tuple[str, ...]) -> None:
        with TransactionProducer(self.store.path, "pg", timeout=30.0) as producer:
            while not self.quiet.is_set():
                number = next(self.numbers)
                kind = ends[number % len(ends)]
                self._note("transaction", [number, kind])
                begun = producer.begin(PAID, transaction_body(number))
                if kind != OPEN:
                    (begun.commit if kind == COMMIT else begun.rollback)()
                    self._note("decided", [number, begun.half.physical_offset])
                time.sleep(0.02)

    def _delete(self, life: int) -> None:
        with Admin(self.store.path) as admin:
            while not self.quiet.is_set():
                generation = self.generation
                with Producer(self.store.path, timeout=30.0) as producer:
                    for number in range(5):
                        self._note("doomed", [generation, number, -1])
                        body = doomed_body(generation, number)
                        sent = producer.send(DOOMED, body, queue=number % 2, keys=f"d{number}")
                        self._note("doomed", [generation, number, sent.physical_offset])
                time.sleep(0.1)
                self._note("deleting", generation)
                admin.delete_topic(DOOMED)
                self._note("deleted", generation)
                self.generation += 1
                time.sleep(0.05)

    def _note(self, word: str, about: object) -> None:
        say(self.recorder, {word: about})
