"""A store under load while its disk operations are recorded."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING, Self

from support.harness import StoreProcess

from silomq import Message, Producer
from silomq.store.disk.recording import Event, Recorder, files_below

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from silomq import SendResult

TOPICS = ("alpha", "beta", "gamma")
QUEUES = 3
#: Small files: within seconds commit log, queues and index all roll.
SETTINGS: dict[str, object] = {
    "mapped_file_size_commit_log": 1 << 17,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 200,
    "max_index_num": 600,
    "max_message_size": 1 << 16,
    "max_topics": 32,
    "max_queues": 256,
    "max_sessions": 16,
    "default_topic_queue_nums": QUEUES,
    "lock_mapped_file_enable": "false",
    "flush_interval_commit_log_ms": 20,
    "flush_commit_log_thorough_interval_ms": 200,
    "flush_interval_consume_queue_ms": 30,
    "flush_consume_queue_thorough_interval_ms": 100,
}


def body_of(producer: int, sequence: int) -> bytes:
    """A body that says whose it is; long ones span pages."""
    rng = random.Random(producer << 32 | sequence)
    size = rng.choice((0, 10, 100, 300, 300, 700, 700, 3000, 9000))
    return b"%d:%d:" % (producer, sequence) + rng.randbytes(size)


def keys_of(producer: int, sequence: int) -> str:
    return f"p{producer} s{sequence}"


def small_store(path: Path, mode: str, environ: dict[str, str] | None = None) -> StoreProcess:
    store = StoreProcess(path, environ=environ, small=False, flush_disk_type=mode)
    store.settings |= SETTINGS
    return store


class Recorded:
    """The recording of a store that takes messages from two producers, is stopped and started, and
    takes as many again; then it is killed. It is looked at all the time.

    What is said into the recording: ["sent", producer, first, last] before a call, and afterwards
    ["ack", producer, sequence, topic, queue, queue offset, physical offset] for each message.
    """

    def __init__(self, folder: Path, mode: str, *, messages: int) -> None:
        self.recording = folder / "recording"
        self.store = small_store(
            folder / "store", mode, {"SILOMQ_DISK_RECORD": str(self.recording)}
        )
        self.messages = messages
        self.stopping = threading.Event()
        self.errors: list[BaseException] = []

    def __enter__(self) -> Self:
        self.store.path.mkdir()
        self.recorder = Recorder(str(self.recording))
        watcher = threading.Thread(target=self._guarded, args=(self._watch,))
        watcher.start()
        try:
            self.store.start()
            self._load(range(2))
            self.store.stop()
            self.store.start()
            self._load(range(2, 4))
        finally:
            self.stopping.set()
            watcher.join()
            self.store.clean_up()
        if self.errors:
            raise self.errors[0]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.store.clean_up()

    def _load(self, numbers: range) -> None:
        producers = [
            threading.Thread(target=self._guarded, args=(self._produce, number))
            for number in numbers
        ]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()

    def _guarded(self, work: object, *arguments: object) -> None:
        try:
            assert callable(work)
            work(*arguments)
        except BaseException as error:  # noqa: BLE001 # raised again in the test's thread
            self.errors.append(error)

    def _watch(self) -> None:
        """Looks at all files, again and again: what is in memory may reach the disk by itself."""
        while not self.stopping.is_set():
            for path in files_below(str(self.store.path)):
                for event in self.recorder.look_at(path, "seen"):
                    self.recorder.note(event)
            time.sleep(0.005)

    def say(self, *words: object) -> None:
        self.recorder.note(Event("said", said=json.dumps(words).encode()))

    def _produce(self, number: int) -> None:
        rng = random.Random(number)
        with Producer(self.store.path, timeout=20.0) as producer:
            first = 0
            while first < self.messages:
                topic, queue = rng.choice(TOPICS), rng.randrange(QUEUES)
                count = rng.choice((1, 1, 4, 12))
                window = range(first, first + count)
                self.say("sent", number, first, first + count - 1)
                messages = [
                    Message(body_of(number, i), keys=keys_of(number, i), tags="T") for i in window
                ]
                if rng.random() < 0.3 and sum(len(m.body) for m in messages) < 1 << 16:
                    results = [producer.send_batch(topic, messages, queue=queue)]
                else:
                    futures = [
                        producer.send_async(topic, m.body, queue=queue, keys=m.keys, tags="T")
                        for m in messages
                    ]
                    results = [future.result() for future in futures]
                self._acknowledge(number, window, results)
                first += count
                time.sleep(rng.choice((0, 0.001, 0.004)))

    def _acknowledge(self, number: int, window: range, results: list[SendResult]) -> None:
        places = [
            (result.topic, result.queue_id, result.queue_offset + i, int(place[-16:], 16))
            for result in results
            for i, place in enumerate(result.offset_message_id.split(","))
        ]
        assert all(result.status.name == "PUT_OK" for result in results), results
        for sequence, place in zip(window, places, strict=True):
            self.say("ack", number, sequence, *place)
