"""`TransactionProducer`: sends messages that consumers see only once they are committed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ...store.errors import IllegalType
from ...store.names import TRANS_END_TOPIC, validate_group
from ...store.status import PutMessageStatus
from .. import arguments
from ..arguments import OWN, Own
from ..producing._half import send_half
from ..producing._sender import session_of
from ..producing.message_properties import Delayed
from ..producing.producer import Producer
from .checks import Check, Checks
from .transaction import Transaction, roll_back_after_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ..producing._message import Message

_MOST_IMMUNITY_S = 72 * 3600


class TransactionProducer:
    """Sends messages to the store in folder `store` in transactions (RocketMQ:
    TransactionMQProducer).

    A transaction begins with the half of a message, which no consumer sees. Then the application
    does its own part. Then it commits, and the message is delivered exactly once, or rolls back. If
    it does neither, because it died, the store asks the producers of `group` after
    `transaction_timeout_ms`, and again each `transaction_check_interval_ms`. It gives up after
    `transaction_check_max` checks: the message then goes to TRANS_CHECK_MAX_TIME_TOPIC.

    `check` is called with a CheckedMessage, in a thread of the producer. It returns True to commit,
    False to roll back, None if that is not known yet. Without `check` this producer answers
    nothing. All producers of a group are asked, and the first decision counts: they must agree.

    The other arguments are the Producer's. Threads may share it; a forked child may not use it.
    Raises StoreClosed when no store runs in the folder, IllegalMessage for a group's name that is
    not allowed.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        group: str,
        *,
        check: Check | None = None,
        ring_size: int | None = None,
        timeout: float | Own | None = OWN,
        on_restart: Literal["error", "retry"] = "error",
        reconnect_timeout: float | None = 30.0,
    ) -> None:
        self._group = arguments.text("group", group)
        validate_group(self._group)
        if check is not None:
            arguments.function("check", check)
        self._checks: Checks | None = None
        self._producer = Producer(
            store,
            ring_size=ring_size,
            timeout=timeout,
            on_restart=on_restart,
            reconnect_timeout=reconnect_timeout,
        )
        try:
            session_of(self._producer).open_topic(Delayed(TRANS_END_TOPIC, ""))
            if check is not None:
                self._checks = Checks(self._producer, self._group, check)
        except BaseException:
            self._producer.close()
            raise

    @property
    def group(self) -> str:
        """The producer group."""
        return self._group

    def begin(
        self,
        topic: str,
        body: Buffer | str | Message,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        queue: int | None = None,
        shard_key: str | None = None,
        born_timestamp: int | None = None,
        first_check: int | None = None,
        timeout: float | Own | None = OWN,
    ) -> Transaction:
        """Stores the half of a message, and returns its transaction.

        `first_check` is in whole seconds, up to three days: so long the store waits before it asks
        for the first time (RocketMQ: CHECK_IMMUNITY_TIME_IN_SECONDS). The other arguments, and the
        errors, are those of `Producer.send`. A transaction cannot be delayed.
        """
        immunity = 0
        if first_check is not None:
            immunity = arguments.whole("first_check", first_check, 1, _MOST_IMMUNITY_S)
        half = send_half(
            self._producer,
            topic,
            body,
            group=self._group,
            tags=tags,
            keys=keys,
            properties=properties,
            flag=flag,
            queue=queue,
            shard_key=shard_key,
            born_timestamp=born_timestamp,
            immunity_s=immunity,
            timeout=timeout,
        )
        return Transaction(self._producer, self._group, str(topic), half)

    def run(
        self,
        topic: str,
        body: Buffer | str | Message,
        local: Callable[[Transaction], bool | None],
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        queue: int | None = None,
        shard_key: str | None = None,
    ) -> Transaction:
        """Stores the half, calls `local` with the transaction, and decides as it says: True
        commits, False rolls back, None leaves it to `check` (RocketMQ: sendMessageInTransaction).

        An exception of `local` rolls back, and is raised. If the half may not survive a power cut
        (FLUSH_DISK_TIMEOUT), `local` is not called, and the transaction is rolled back. The
        arguments and errors are those of `begin`.
        """
        arguments.function("local", local)
        transaction = self.begin(
            topic,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            queue=queue,
            shard_key=shard_key,
        )
        if transaction.half.status != PutMessageStatus.PUT_OK:
            transaction.rollback()
            return transaction
        try:
            answer: object = local(transaction)
        except BaseException:
            if transaction.state == "open":
                roll_back_after_error(transaction)
            raise
        if answer is None or transaction.state != "open":
            return transaction
        if answer is not True and answer is not False:
            roll_back_after_error(transaction)
            raise IllegalType(f"local must return True, False or None, not {answer!r:.60}")
        if answer:
            transaction.commit()
        else:
            transaction.rollback()
        return transaction

    __reduce_ex__ = arguments.no_copy

    def close(self) -> None:
        """Ends the session, after a `check` that runs. Open transactions stay open: another
        producer of the group is asked. May be called again.
        """
        if self._checks is not None:
            self._checks.stop()
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
