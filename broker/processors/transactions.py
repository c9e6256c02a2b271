"""The ends of transactions (RocketMQ's EndTransactionProcessor), and halves that are asked about
again.

A broker moves no message. It checks a decision and stores it; the store's process `transactions`
obeys it. So a decision that is sent twice moves one message. What moves nothing is not stored:
decisions that do not belong to the half that they name, about transactions that have ended, and
repeated ones. The log says how many there were, once a second at most.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from ...client.producing.message_properties import Delayed
from ...store.errors import Corrupt, MessageNotFound
from ...store.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_END_TOPIC, TRANS_HALF_TOPIC
from ...store.record.format import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
    Record,
    decode_record,
)
from ...store.record.ids import Host
from ...store.status import PutMessageStatus
from ...store.transactions.decisions import Decision, encode_decision
from ...store.transactions.half import Half, NotAHalf, checked, read_half
from ...store.transactions.refused import Refused as Refusals
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import offset_in_id, parse
from .calls import Call, Handlers, Refused, code_of
from .parts import Parts
from .transaction_repeats import Repeats

_KINDS: Final = (TRANSACTION_NONE, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
#: A decision counts as stored with these: RocketMQ's broker takes them as success, too.
_STORED: Final = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
)


class _End(msgspec.Struct, rename="camel"):
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str = ""


class _Resume(msgspec.Struct, rename="camel"):
    msg_id: str


class TransactionProcessor:
    """Stores decisions about transactions, and opens again those that were given up."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._refusals = Refusals(parts.logger)
        self._repeats = Repeats()
        parts.link.ended.append(self._repeats.clear)

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
        }

    async def end(self, call: Call) -> Command:
        """Stores a producer's decision. Clients send it one-way, and ask for no answer."""
        header = parse(_End, call.request.fields)
        if header.commit_or_rollback not in _KINDS:
            why = f"commitOrRollback is {header.commit_or_rollback}: 8 commits, 12 rolls back"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        try:
            half = self._half(header)
        except Refused as refused:
            self._note("a client may not end the transaction", str(refused))
            raise
        call.grant.demand_writing(half.topic)
        if header.commit_or_rollback == TRANSACTION_NONE:
            return call.request.answer()  # not known yet: the producers will be asked
        if self._moves_nothing(half):
            return call.request.answer()
        self._repeats.begin(half.offset)
        stored = False
        try:
            await self._decide(call, header, half)
            stored = True
        finally:
            self._repeats.end(half.offset, stored=stored)
        return call.request.answer()

    def _note(self, reason: str, where: str) -> None:
        self._refusals.note(reason, where)
        self._refusals.say()

    def _moves_nothing(self, half: Half) -> bool:
        """Whether another decision about this half changes nothing. Raises Refused while the first
        one is being stored: it may fail.
        """
        where = f"log offset {half.offset}, group {half.group[:255]!a}"
        if self._repeats.is_begun(half.offset):
            self._note("another decision about it is being stored", where)
            why = "another decision about this transaction is being stored"
            raise Refused(ResponseCode.SYSTEM_BUSY, why)
        control = self._parts.link.connection.control
        if half.queue_offset < control.load("trans_half_next"):
            self._note("the transaction has ended", where)
            return True
        if self._repeats.is_stored(half.offset):
            self._note("it was decided already", where)
            return True
        return False

    async def _decide(self, call: Call, header: _End, half: Half) -> None:
        """Stores a decision. Raises Refused."""
        config = self._parts.link.connection.config
        decision = Decision(
            commit=header.commit_or_rollback == TRANSACTION_COMMIT,
            queue_offset=half.queue_offset,
            offset=half.offset,
            group=half.group,
            key=half.key,
        )
        record = encode_decision(
            decision,
            born_ms=time.time_ns() // 1_000_000,
            born_host=Host.unpack(call.connection.host),
            store_host=Host.unpack(config.store_host),
            record_crc=config.append_crc,
        )
        await self._put(Delayed(TRANS_END_TOPIC, ""), record)

    def _half(self, header: _End) -> Half:
        """The half that a decision names. Raises Refused unless it is the sender's."""
        try:
            half = read_half(self._record(header.commit_log_offset))
        except (MessageNotFound, Corrupt, NotAHalf) as error:
            why = f"Find prepared transaction message failed: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why) from error
        age_ms = time.time_ns() // 1_000_000 - half.born_ms
        if not header.from_transaction_check and 0 < half.immunity_ms < age_ms:
            why = "the time in which only the producer decides is over: it will be asked"
            raise Refused(ResponseCode.ILLEGAL_OPERATION, why)
        if not half.group or half.group != header.producer_group:
            why = f"The producer group wrong: {header.producer_group[:255]!a}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        if half.queue_offset != header.tran_state_table_offset:
            why = f"The transaction state table offset wrong: {header.tran_state_table_offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        return half

    def _record(self, offset: int) -> Record:
        record = decode_record(self._parts.reading.record_at(offset))
        if record.physical_offset != offset:
            raise MessageNotFound(f"no message begins at log offset {offset}")
        return record

    async def resume(self, call: Call) -> Command:
        """Opens a transaction again that was given up: its producers are asked from the first time
        on.
        """
        header = parse(_Resume, call.request.fields)
        try:
            record = self._record(offset_in_id(header.msg_id))
        except (MessageNotFound, Corrupt) as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            why = f"message {header.msg_id[:60]!a} is not in {TRANS_CHECK_MAX_TIME_TOPIC}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        config = self._parts.link.connection.config
        host = Host.unpack(config.store_host)
        made, _ = checked(record, 0, host, record_crc=config.append_crc)
        await self._put(Delayed(TRANS_HALF_TOPIC, ""), made)
        return call.request.answer()

    async def _put(self, where: Delayed, record: bytes) -> None:
        parts = self._parts
        (slot,) = await parts.topics.route(where)
        sent = await parts.sending.put(record, 1, slot, wait=True)
        if sent.status not in _STORED:
            error = parts.sending.why(sent.status)
            raise Refused(code_of(error.status), error.why)
