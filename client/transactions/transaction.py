"""`Transaction`: a message that consumers see when it is committed, and never if it is not."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Literal, Self

from ...store.errors import IllegalUse, StoreError
from ...store.names import TRANS_END_TOPIC
from ...store.record.ids import Host
from ...store.transactions.decisions import Decision, encode_decision
from .. import arguments
from ..arguments import OWN, Own
from ..producing._sender import send_encoded, session_of
from ..producing.message_properties import Delayed
from ..producing.producer import Producer
from ..producing.send_result import SendResult

_log = logging.getLogger("silomq")
_WHERE = Delayed(TRANS_END_TOPIC, "")


def send_decision(
    producer: Producer, decision: Decision, timeout: float | Own | None = OWN
) -> SendResult:
    """Sends a decision, and waits for the store's answer. Raises as `Producer.send`."""
    config = session_of(producer).config
    record = encode_decision(
        decision,
        born_ms=int(time.time() * 1000),
        born_host=Host.unpack(config.born_host),
        store_host=Host.unpack(config.store_host),
        record_crc=config.append_crc,
    )
    return send_encoded(producer, _WHERE, 0, record, timeout=timeout)


class Transaction:
    """A message whose half is stored. `TransactionProducer.begin` makes it.

    As a context manager it commits at the end of the block, and rolls back if an exception leaves
    it. Without a decision the store asks the group's producers (`check`). Threads may share it.
    """

    def __init__(self, producer: Producer, group: str, topic: str, half: SendResult) -> None:
        self._producer = producer
        self._group = group
        self._lock = threading.Lock()
        self._state: Literal["open", "committed", "rolled back"] = "open"
        self._topic = topic
        self._half = half

    @property
    def topic(self) -> str:
        """The topic to which the message goes."""
        return self._topic

    @property
    def half(self) -> SendResult:
        """The store's answer to the half: where it is, and what it survives."""
        return self._half

    @property
    def message_id(self) -> str:
        """The message's UNIQ_KEY, which half and committed message share."""
        return self._half.message_id

    @property
    def state(self) -> Literal["open", "committed", "rolled back"]:
        """What this object was told. The answer to a check decides otherwise if it was first."""
        return self._state

    def commit(self, *, timeout: float | Own | None = OWN) -> SendResult:
        """Lets consumers see the message. The answer is that of the decision: once it is stored,
        the message will be delivered once, whatever dies. Consumers see it some milliseconds later.

        May be called again after an error. Raises IllegalUse after a rollback, and as
        `Producer.send`.
        """
        return self._decide(commit=True, timeout=timeout)

    def rollback(self, *, timeout: float | Own | None = OWN) -> SendResult:
        """Gives the message up: no consumer will see it. Otherwise as `commit`."""
        return self._decide(commit=False, timeout=timeout)

    def _decide(self, *, commit: bool, timeout: float | Own | None) -> SendResult:
        wanted: Literal["committed", "rolled back"] = "committed" if commit else "rolled back"
        with self._lock:
            if self._state not in ("open", wanted):
                raise IllegalUse(f"the transaction {self.message_id} is {self._state} already")
            decision = Decision(
                commit=commit,
                queue_offset=self._half.queue_offset,
                offset=self._half.physical_offset,
                group=self._group,
                key=self.message_id,
            )
            result = send_decision(self._producer, decision, timeout)
            self._state = wanted
            return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state != "open":
            return
        if kind is None:
            self.commit()
        else:
            roll_back_after_error(self)

    __reduce_ex__ = arguments.no_copy

    def __repr__(self) -> str:
        return f"<Transaction {self.message_id} for {self._topic}: {self._state}>"


def roll_back_after_error(transaction: Transaction) -> None:
    """Rolls back because of an error, which another one must not hide: if the store does not take
    the decision, it asks the producers.
    """
    try:
        transaction.rollback()
    except StoreError as error:
        _log.warning("a transaction was not rolled back: %s", error)
