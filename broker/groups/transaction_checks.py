"""`TransactionChecks`: asks producers what became of their transactions (CHECK_TRANSACTION_STATE).

The store's process `transactions` decides when a transaction is to be checked. It puts its half
once more into RMQ_SYS_TRANS_HALF_TOPIC, with a greater number of checks. The broker reads that
queue while it has producers, and passes each such half on to one of its group. The producer answers
with END_TRANSACTION. RocketMQ's broker asks once, when the check is due. Here a group that had no
producer then is asked as soon as one connects.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from ...store.errors import IllegalMessage, StoreError
from ...store.names import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from ...store.record.copies import without
from ...store.record.format import Record, encode_record
from ...store.record.properties import CRC32
from ...store.transactions.half import Half, NotAHalf, read_half
from ...store.transactions.ops import read_op
from ..link.reading import Reading
from ..link.store import StoreLink
from ..loop._loop import Loop
from ..loop.tasks import start
from ..wire.codes import RequestCode
from ..wire.command import Command
from .consumers import Producers
from .holds import Holds
from .relay import Relay
from .stored_records import let_others_work, read_on

#: So many halves are looked through for a group whose first producer connects: the newest.
_MOST_BACK: Final = 4096
#: How often it looks whether it is still needed (s).
_LOOK_S: Final = 5.0
_MOST_BODY: Final = 2**31 - 1 - 65536


class TransactionChecks:
    """Relays checks to the producers of `producers`. `name` is the broker's."""

    def __init__(
        self,
        loop: Loop,
        link: StoreLink,
        *,
        reading: Reading,
        holds: Holds,
        producers: Producers,
        relay: Relay,
        name: str,
        logger: Any,
    ) -> None:
        self._loop = loop
        self._link = link
        self._reading = reading
        self._holds = holds
        self._producers = producers
        self._relay = relay
        self._name = name
        self._logger = logger
        self._runs = False
        self._turn = 0
        self._new: set[str] = set()
        producers.came = self._came

    def _came(self, group: str) -> None:
        self._new.add(group)
        self.tick()

    def tick(self) -> None:
        """Begins when there are producers and halves."""
        if self._runs or not self._link.is_up or not self._producers.counts():
            return
        if self._link.find(TRANS_HALF_TOPIC) is not None:
            self._runs = True
            start(self._run())

    async def _run(self) -> None:
        """Follows the half queue until no producer is left, or the store has gone."""
        try:
            _, place = self._reading.bounds(TRANS_HALF_TOPIC, 0)
            while self._producers.counts():
                if self._new:
                    groups, self._new = self._new, set()
                    await self._look_back(groups, place)
                    continue
                least, end = self._reading.bounds(TRANS_HALF_TOPIC, 0)
                place = max(place, least)
                if place >= end:
                    wake = time.monotonic() + _LOOK_S
                    await self._holds.wait(TRANS_HALF_TOPIC, 0, end, wake, None)
                    continue
                records, place = read_on(self._reading, TRANS_HALF_TOPIC, place)
                for half, record in _halves(records):
                    self._ask(half, record)
                await let_others_work(self._loop)
        except (StoreError, OSError) as error:
            if self._link.is_up:
                self._logger.warning("checks of transactions begin anew", error=str(error))
        finally:
            self._runs = False

    async def _look_back(self, groups: set[str], end: int) -> None:
        """Asks these groups about open halves before queue offset `end` that are to be checked."""
        control = self._link.connection.control
        least, _ = self._reading.bounds(TRANS_HALF_TOPIC, 0)
        place = max(least, control.load("trans_half_next"), end - _MOST_BACK)
        open_halves: dict[bytes, tuple[Half, Record]] = {}
        while place < end:
            records, place = read_on(self._reading, TRANS_HALF_TOPIC, place)
            for half, record in _halves(records):
                if half.group in groups:
                    open_halves[half.identity] = half, record
            await let_others_work(self._loop)
        if not open_halves:
            return
        done = await self._done(control.load("trans_op_next"))
        for half, record in open_halves.values():
            if half.queue_offset not in done:
                self._ask(half, record)

    async def _done(self, begin: int) -> set[int]:
        """The queue offsets of halves that op records from queue offset `begin` on call done."""
        least, end = self._reading.bounds(TRANS_OP_HALF_TOPIC, 0)
        place, found = max(least, begin, end - _MOST_BACK), set[int]()
        while place < end:
            records, place = read_on(self._reading, TRANS_OP_HALF_TOPIC, place)
            for record in records:
                found.update(read_op(record))
            await let_others_work(self._loop)
        return found

    def _ask(self, half: Half, record: Record) -> None:
        """Asks one producer of the half's group, in turn, if one is connected that may send to its
        topic: it gets the message.
        """
        if not half.checks:
            return
        members = self._producers.members(half.group)
        producers = [one.connection for one in members if one.may_write(half.topic)]
        if not producers:
            return
        self._turn += 1
        least = min(connection.unsent for connection in producers)
        free = [connection for connection in producers if connection.unsent == least]
        fields = {
            "topic": TRANS_HALF_TOPIC,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.offset),
            "msgId": half.key,
            "transactionId": half.key,
            "offsetMsgId": record.offset_message_id,
            "bname": self._name,
        }
        try:
            body = _as_message(half, record)
        except IllegalMessage as error:
            self._logger.error("a half cannot be shown", offset=half.offset, why=error.why)
            return
        command = Command(RequestCode.CHECK_TRANSACTION_STATE, fields, body)
        self._relay.tell(free[self._turn % len(free)], command)


def _halves(records: list[Record]) -> Iterator[tuple[Half, Record]]:
    """The halves among records."""
    for record in records:
        try:
            yield read_half(record), record
        except NotAHalf:
            continue


def _as_message(half: Half, record: Record) -> bytes:
    """A half's record as its producer sent it: for the message's own topic and queue."""
    return encode_record(
        topic=half.topic.encode(),
        body=record.body,
        properties=without(record.properties_raw, CRC32),
        queue_id=half.queue_id,
        flag=record.flag,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_timestamp=record.store_timestamp,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        max_message_size=_MOST_BODY,
    )
