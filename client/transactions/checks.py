"""`Checks`: a thread that answers when the store asks what became of a transaction."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...store.errors import StoreError
from ...store.names import TRANS_HALF_TOPIC
from ...store.record.properties import REAL_QID, REAL_TOPIC
from ...store.transactions.decisions import Decision
from ...store.transactions.half import PRODUCER_GROUP, checks_of
from ..consuming.consumer import Consumer
from ..consuming.message_view import MessageView
from ..errors import StoreClosed
from ..producing.producer import Producer
from .transaction import send_decision

_BATCH = 256
#: After a lost store, and after an error, it tries again in this time (s).
_RETRY_S = 0.5


@dataclass(frozen=True)
class CheckedMessage:
    """A message whose transaction is open. `checks` is how often the store has asked, this time
    included. The other fields are as in MessageView; `topic` and `queue_id` say where it will go.
    """

    topic: str
    queue_id: int
    message_id: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    born_timestamp: int
    checks: int


#: True commits, False rolls back; None says that it is not known yet.
Check = Callable[[CheckedMessage], bool | None]


class Checks:
    """Reads the half topic from its end on, and calls `check` for the halves of `group` that ask.

    `producer` sends the answers. The thread goes on when the store comes back. An exception of
    `check` goes to the log, and counts as None. Raises what opening the topic raises.
    """

    def __init__(self, producer: Producer, group: str, check: Check) -> None:
        self._producer = producer
        self._group = group
        self._check = check
        self._log = logging.getLogger("silomq")
        self._stopping = False
        self._wake, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._begun = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="silomq-check", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._error is not None:
            self.stop()
            raise self._error

    def stop(self) -> None:
        """Ends the thread, after the callback that runs. May be called again."""
        self._stopping = True
        if self._wakes < 0:
            return
        with contextlib.suppress(BlockingIOError):
            os.write(self._wakes, b"1")
        if self._thread is not threading.current_thread():
            self._thread.join()
            os.close(self._wake)
            os.close(self._wakes)
            self._wake = self._wakes = -1

    def _run(self) -> None:
        while not self._stopping:
            try:
                with Consumer(self._producer.store, TRANS_HALF_TOPIC, offset="latest") as consumer:
                    self._begun.set()
                    self._follow(consumer)
            except StoreError as error:
                if not self._begun.is_set():
                    self._error = error
                    self._begun.set()
                    return
                if not isinstance(error, StoreClosed):
                    self._log.error("checks of transactions: %s", error)  # noqa: G004
                self._pause()
            except BaseException as error:
                self._error = error
                self._begun.set()
                raise

    def _pause(self) -> None:
        select.select([self._wake], [], [], _RETRY_S)

    def _follow(self, consumer: Consumer) -> None:
        while not self._stopping:
            messages = consumer.poll(max_messages=_BATCH, timeout=0)
            for message in messages:
                if self._stopping:
                    return
                found = message.properties
                if found.get(PRODUCER_GROUP) == self._group and checks_of(found):
                    self._answer(message, found)
            if not messages:
                select.select([consumer.fileno(), self._wake], [], [])

    def _answer(self, message: MessageView, properties: dict[str, str]) -> None:
        asked = CheckedMessage(
            topic=properties.get(REAL_TOPIC, ""),
            queue_id=int(properties.get(REAL_QID, "0")),
            message_id=message.message_id,
            body=message.body,
            tags=message.tags,
            keys=tuple(message.keys),
            properties=properties,
            born_timestamp=message.born_timestamp,
            checks=checks_of(properties),
        )
        try:
            answer = self._check(asked)
        except Exception:  # noqa: BLE001 - the application's error is not the end of the checks
            self._log.exception("the check of transaction %s failed", asked.message_id)
            return
        if answer is None:
            return
        decision = Decision(
            commit=bool(answer),
            queue_offset=message.queue_offset,
            offset=message.physical_offset,
            group=self._group,
            key=asked.message_id,
        )
        try:
            send_decision(self._producer, decision)
        except StoreError as error:
            # The store asks again.
            self._log.warning("a decision was not stored: %s", error)
