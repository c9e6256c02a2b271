"""A store under load while its disk operations are recorded."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Self

import msgspec
from support.checking.sent import Ack, Begun, Sent, acks_of
from support.harness import StoreProcess
from support.load.sender import Sender
from support.small_settings import ROLLING

from silomq.store.disk.recording import Event, Recorder, files_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from silomq import SendResult

TOPICS = ("alpha", "beta", "gamma")
QUEUES = 3


def small_store(
    path: Path, mode: str, environ: dict[str, str] | None = None, **settings: object
) -> StoreProcess:
    return StoreProcess(path, environ=environ, base=ROLLING, flush_disk_type=mode, **settings)


def say(recorder: Recorder, words: object) -> None:
    """Notes in the recording what is known from now on."""
    recorder.note(Event("said", said=msgspec.json.encode(words)))


class Said(Sent):
    """What producers know, said into the recording: of each message before it is given to the
    store, and of each answer when it is there.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def begin(self, begun: Begun) -> None:
        super().begin(begun)
        self._say({"begun": begun})

    def acknowledge(self, result: SendResult, producer: int, sequences: Sequence[int]) -> None:
        super().acknowledge(result, producer, sequences)
        for ack in acks_of(result, producer, sequences):
            self._say({"ack": ack})

    def _say(self, words: dict[str, Begun | Ack]) -> None:
        say(self.recorder, words)


def known_at_the_cut(notes: Iterable[bytes]) -> Sent:
    """What producers knew when these had been said."""
    sent = Sent()
    for note in notes:
        words = msgspec.json.decode(note)
        if "begun" in words:
            sent.begun.append(msgspec.convert(words["begun"], Begun))
        elif "ack" in words:
            sent.acks.append(msgspec.convert(words["ack"], Ack))
    return sent


class Recorded:
    """The recording of a store that takes messages from two producers, is stopped and started, and
    takes as many again; then it is killed. It is looked at all the time, and what producers know is
    said into the recording.
    """

    look_s = 0.005  # between two looks at all files

    def __init__(self, folder: Path, mode: str, *, messages: int = 0, **settings: object) -> None:
        self.recording = folder / "recording"
        self.store = small_store(
            folder / "store", mode, {"SILOMQ_DISK_RECORD": str(self.recording)}, **settings
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
            self.live()
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

    def live(self) -> None:
        """What happens while everything is recorded."""
        self.store.start()
        self.at_once(*((self._produce, number) for number in range(2)))
        self.store.stop()
        self.store.start()
        self.at_once(*((self._produce, number) for number in range(2, 4)))

    def at_once(self, *works: tuple[object, ...]) -> None:
        """Calls each of (function, arguments...) in a thread of its own, until all are done."""
        threads = [threading.Thread(target=self._guarded, args=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

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
            time.sleep(self.look_s)

    def sender(self, number: int) -> Sender:
        """A producer that says what it knows into the recording."""
        said = Said(self.recorder)
        return Sender(
            self.store.path, number, TOPICS, kind="pages", queues=QUEUES, sent=said, timeout=30.0
        )

    def _produce(self, number: int) -> None:
        rng = random.Random(number)
        sender = self.sender(number)
        while sender.next < self.messages:
            count = rng.choice((1, 1, 4, 12))
            if rng.random() < 0.3 and sender.next_bytes(count) < 1 << 16:
                sender.send_batch(count)
            else:
                sender.send_window(count)
            time.sleep(rng.choice((0, 0.001, 0.004)))
        sender.close()
