"""`Checks`: a thread that answers when the store asks what became of a transaction."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...store.disk.forks import NO_FORK
from ...store.errors import IllegalType, StoreError
from ...store.names import TRANS_HALF_TOPIC
from ...store.record.properties import REAL_QID, REAL_TOPIC
from ...store.transactions.decisions import Decision
from ...store.transactions.half import PRODUCER_GROUP, checks_of
from ..consuming.consumer import Consumer
from ..consuming.message_view import MessageView
from ..errors import StoreClosed
from ..forks import abandon_in_child
from ..producing.producer import Producer
from .transaction import send_decision

_BATCH = 256
#: After a lost store, and after an error, it tries again in this time (s).
_RETRY_MS = 500
_MOST_DIGITS = 10


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
        with NO_FORK:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            abandon_in_child(self)
        self._begun = threading.Event()
        self._refused: list[StoreError] = []
        self._thread = threading.Thread(target=self._run, name="silomq-check", daemon=True)
        self._thread.start()
        self._begun.wait()
        for error in self._refused:
            self.stop()
            raise error

    def stop(self) -> None:
        """Ends the thread, after the callback that runs. Within a callback this does not wait. May
        be called again, and does nothing in a forked child.
        """
        self._stopping = True
        if self._wake < 0:
            return
        os.eventfd_write(self._wake, 1)
        if self._thread is not threading.current_thread():
            self._thread.join()
            self.abandon()

    def abandon(self) -> None:
        """Closes the descriptor. A forked child has no thread that waits for it."""
        self._stopping = True
        with NO_FORK:
            wake, self._wake = self._wake, -1
            if wake >= 0:
                os.close(wake)

    def __del__(self) -> None:
        self.abandon()

    def _ends(self) -> bool:
        return self._stopping

    def _run(self) -> None:
        while not self._stopping:
            try:
                with Consumer(self._producer.store, TRANS_HALF_TOPIC, offset="latest") as consumer:
                    self._begun.set()
                    self._follow(consumer)
            except StoreError as error:
                if not self._begun.is_set():
                    self._refused.append(error)
                    self._begun.set()
                    return
                if not isinstance(error, StoreClosed):
                    self._log.error("checks of transactions: %s", error)
                self._sleep(_RETRY_MS)

    def _sleep(self, timeout_ms: int | None, fd: int = -1) -> None:
        """Sleeps until `stop` is called, or `fd` is readable."""
        poll = select.poll()
        for one in (self._wake, fd):
            if one >= 0:
                poll.register(one, select.POLLIN)
        poll.poll(timeout_ms)

    def _follow(self, consumer: Consumer) -> None:
        while not self._ends():
            messages = consumer.poll(max_messages=_BATCH, timeout=0)
            for message in messages:
                if self._ends():
                    return
                try:
                    self._look_at(message)
                except Exception:  # noqa: BLE001 - one message must not end the checks of others
                    self._log.exception("the check of a transaction failed")
            if not messages:
                self._sleep(None, consumer.fileno())

    def _look_at(self, message: MessageView) -> None:
        """Asks the application, if a half of this group asks. Other halves are no concern."""
        properties = message.properties
        queue = properties.get(REAL_QID, "")
        if properties.get(PRODUCER_GROUP) != self._group or not checks_of(properties):
            return
        if not (queue.isascii() and queue.isdigit() and len(queue) <= _MOST_DIGITS):
            return  # no half: the store refuses it too
        asked = CheckedMessage(
            topic=properties.get(REAL_TOPIC, ""),
            queue_id=int(queue),
            message_id=message.message_id or "",
            body=message.body,
            tags=message.tags,
            keys=tuple(message.keys),
            properties=properties,
            born_timestamp=message.born_timestamp,
            checks=checks_of(properties),
        )
        answer: object = self._check(asked)
        if answer is None:
            return
        if answer is not True and answer is not False:
            raise IllegalType(f"check must return True, False or None, not {answer!r:.60}")
        decision = Decision(
            commit=answer is True,
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
