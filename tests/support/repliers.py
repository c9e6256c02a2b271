"""A consumer in a thread that replies to each request in a topic."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from silomq import Consumer, IllegalArgument, Producer, StoreError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class Replier:
    """Replies "re: " and the body to each new message of `topic`, `times` times. It ends with the
    block, or with the store.
    """

    def __init__(self, store: Path, topic: str, *, times: int = 1) -> None:
        self._store = store
        self._topic = topic
        self._times = times
        self._over = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        #: The bodies of the messages that were no requests.
        self.others: list[bytes] = []
        self.error: StoreError | None = None

    def _run(self) -> None:
        try:
            with Producer(self._store) as producer:
                producer.open_topic(self._topic)
                with Consumer(self._store, self._topic, offset="latest") as consumer:
                    self._ready.set()
                    self._reply(producer, consumer)
        except StoreError as error:
            self.error = error
        finally:
            self._ready.set()

    def _reply(self, producer: Producer, consumer: Consumer) -> None:
        while not self._over.is_set():
            for message in consumer.poll(100, 0.05):
                for _ in range(self._times):
                    try:
                        producer.reply(message, b"re: " + message.body)
                    except IllegalArgument:
                        self.others.append(message.body)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
