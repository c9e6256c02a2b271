"""What consumers say of messages that they have popped: ACK_MESSAGE, BATCH_ACK_MESSAGE and
CHANGE_MESSAGE_INVISIBLETIME (RocketMQ's AckMessageProcessor, ChangeInvisibleTimeProcessor).

A receipt that is too old, made up, or of another group moves nothing. The answer is RocketMQ's, for
which every receipt is good, and the log says how many there were, once a second at most.
"""

from __future__ import annotations

import base64
import binascii
import time
from typing import Annotated, Final

import msgspec

from ...shm.protocol.pop_answers import SettledLease
from ...shm.protocol.pops import MOST_INVISIBLE_MS, MOST_SETTLED, Settling
from ...store.groups.leases import LEASE_MOST
from ..groups.heartbeats import BadBody, Name, decode
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command
from ..wire.headers import parse
from ..wire.receipts import TOPIC, Receipt, retry_topics
from .calls import Call, Handlers, Refused
from .parts import Parts

_OFFSET_LIMIT: Final = 1 << 63
_MASK: Final = (1 << LEASE_MOST) - 1


class _Ack(msgspec.Struct, rename="camel"):
    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int


class _Change(_Ack, rename="camel"):
    invisible_time: int


class BatchEntry(msgspec.Struct):
    """Messages of one lease. `bits` is the base64 text of a bit set, little-endian."""

    group: Name = msgspec.field(name="c")
    topic: Name = msgspec.field(name="t")
    first: int = msgspec.field(name="so")
    popped_ms: int = msgspec.field(name="pt")
    queue_id: int = msgspec.field(name="q")
    bits: str = msgspec.field(name="b")
    mark: str | int | None = msgspec.field(name="r", default=TOPIC)

    @property
    def real_topic(self) -> str:
        """The topic in which the messages lie."""
        return retry_topics(self.group, self.topic).get(str(self.mark), self.topic)


class BatchAck(msgspec.Struct):
    """The body of BATCH_ACK_MESSAGE."""

    acks: Annotated[list[BatchEntry], msgspec.Meta(max_length=MOST_SETTLED)] = msgspec.field(
        default_factory=list
    )


class PopAckProcessor:
    """Settles leases for consumers."""

    def __init__(self, parts: Parts) -> None:
        self._link = parts.link
        self._pops = parts.pops
        self._holds = parts.pop_holds
        self._reading = parts.reading
        self._logger = parts.logger
        self._stale = 0
        self._told_at = 0.0

    @property
    def handlers(self) -> Handlers:
        return {
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change,
        }

    async def ack(self, call: Call) -> Command:
        """Acknowledges one message."""
        header = parse(_Ack, call.request.fields)
        receipt = self._check(header)
        await self._settle(header, receipt, -1)
        return call.request.answer()

    async def change(self, call: Call) -> Command:
        """Gives one message another end of its lease: its receipt is another one then."""
        header = parse(_Change, call.request.fields)
        receipt = self._check(header)
        after_ms = min(max(0, header.invisible_time), MOST_INVISIBLE_MS)
        found = await self._settle(header, receipt, after_ms)
        if not found.mask:
            raise Refused(ResponseCode.NO_MESSAGE, "the message's receipt is not good any more")
        fields = {
            "popTime": str(found.popped_ms),
            "invisibleTime": str(found.due_ms - found.popped_ms),
            "reviveQid": str(receipt.revive),
        }
        return call.request.answer(fields=fields)

    def _check(self, header: _Ack) -> Receipt:
        """The receipt of a request. Raises Refused for a queue or offset that is not there."""
        receipt = Receipt.parse(header.extra_info)
        found = self._link.find(header.topic)
        if found is None:
            why = f"The topic {header.topic} not exist, apply first please!"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
        if not 0 <= header.queue_id < len(found.slots):
            why = f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}]"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
        least, end = self._reading.bounds(header.topic, header.queue_id)
        if not least <= header.offset < end:
            why = f"request offset {header.offset} not in queue offsets {least} to {end}"
            raise Refused(ResponseCode.NO_MESSAGE, why)
        return receipt

    async def _settle(self, header: _Ack, receipt: Receipt, after_ms: int) -> SettledLease:
        bit = header.offset - receipt.first
        if not 0 <= bit < LEASE_MOST:
            self._note_stale(header.consumer_group)
            return SettledLease(0)
        one = Settling(
            header.topic, header.queue_id, receipt.first, receipt.popped_ms, 1 << bit, after_ms
        )
        (found,) = await self._pops.settle(header.consumer_group, [one])
        if not found.mask:
            self._note_stale(header.consumer_group)
        self._look(header.consumer_group, header.topic, header.queue_id, after_ms)
        return found

    def _look(self, group: str, real_topic: str, queue_id: int, after_ms: int) -> None:
        """Wakes a pop that waits for the message, or for the end of a lease in order."""
        found = self._link.find(real_topic)
        there = found is not None and queue_id < len(found.slots)
        slot = found.slots[queue_id] if found is not None and there else None
        topic = real_topic
        for sign in "_+":
            prefix = f"%RETRY%{group}{sign}"
            topic = topic.removeprefix(prefix)
        if after_ms >= 0:
            self._holds.expect((group, topic), slot, after_ms)
        else:
            self._holds.wake((group, topic), slot)

    async def batch_ack(self, call: Call) -> Command:
        """Acknowledges messages of many leases."""
        batch = decode(BatchAck, call.request.body) if call.request.body else BatchAck()
        if not batch.acks:
            raise Refused(ResponseCode.NO_MESSAGE, "the batch is empty")
        by_group: dict[str, list[Settling]] = {}
        for entry in batch.acks:
            if self._link.find(entry.real_topic) is None:
                continue
            mask = _mask_of(entry.bits)
            if mask and 0 <= entry.queue_id < 1 << 31 and _are_offsets(entry):
                by_group.setdefault(entry.group, []).append(
                    Settling(entry.real_topic, entry.queue_id, entry.first, entry.popped_ms, mask)
                )
        for group, settled in by_group.items():
            found = await self._pops.settle(group, settled)
            for one, done in zip(settled, found, strict=True):
                if done.mask != one.mask:
                    self._note_stale(group)
                self._look(group, one.topic, one.queue_id, -1)
        return call.request.answer()

    def _note_stale(self, group: str) -> None:
        self._stale += 1
        now = time.monotonic()
        if now - self._told_at > 1.0:
            self._logger.warning(
                "receipts that move nothing: too old, or made up", count=self._stale, group=group
            )
            self._told_at, self._stale = now, 0


def _are_offsets(entry: BatchEntry) -> bool:
    return 0 <= entry.first < _OFFSET_LIMIT and 0 <= entry.popped_ms < _OFFSET_LIMIT


def _mask_of(bits: str) -> int:
    """The bits of a Java BitSet, as far as a lease has them. Raises BadBody."""
    try:
        return int.from_bytes(base64.b64decode(bits, validate=True)[:8], "little") & _MASK
    except (binascii.Error, ValueError) as error:
        raise BadBody(f"no bit set in base64: {bits[:40]!a}") from error
