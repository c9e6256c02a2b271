"""What RocketMQ's clients that pop tell and are told of messages: receipts, and the fields of the
answer to a pop. Source: RocketMQ's `ExtraInfoUtil` and `KeyBuilder`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...shm.protocol.pop_answers import PoppedLease
from .headers import BadHeader

#: The property in which a client keeps a message's receipt.
POP_CK: Final = "POP_CK"
#: The marks of topics in a receipt: the topic itself, and the two names of its retry topic.
TOPIC, RETRY_V1, RETRY_V2 = "0", "1", "2"
#: Receipts of pops in order name this queue for revival; others queue 0. There is none here.
IN_ORDER: Final = 999


def retry_topics(group: str, topic: str) -> dict[str, str]:
    """The names of a topic's retry topics for a group that pops, by their marks."""
    return {RETRY_V1: f"%RETRY%{group}_{topic}", RETRY_V2: f"%RETRY%{group}+{topic}"}


class Receipt(msgspec.Struct, frozen=True):
    """What a client hands back for a message. `first` and `popped_ms` name its lease. `offset` is
    the message's queue offset, None in a receipt that stands for its whole lease.
    """

    first: int
    popped_ms: int
    invisible_ms: int
    revive: int
    mark: str
    broker: str
    queue_id: int
    offset: int | None

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """Raises BadHeader."""
        parts = text.split(" ")
        try:
            first, popped_ms, invisible_ms, revive = map(int, parts[:4])
            mark, broker, queue_id = parts[4], parts[5], int(parts[6])
            offset = int(parts[7]) if len(parts) > 7 else None
        except (ValueError, IndexError) as error:
            raise BadHeader(f"extraInfo is no receipt of a pop: {text[:200]!a}") from error
        if not (0 <= first < 1 << 63 and 0 <= popped_ms < 1 << 63):
            raise BadHeader(f"extraInfo is no receipt of a pop: {text[:200]!a}")
        return cls(first, popped_ms, invisible_ms, revive, mark, broker, queue_id, offset)

    @classmethod
    def of(cls, lease: PoppedLease, mark: str, broker: str, offset: int) -> Receipt:
        """The receipt of a message of a lease."""
        invisible_ms, queue_id = lease.due_ms - lease.popped_ms, lease.queue_id
        return cls(
            lease.first, lease.popped_ms, invisible_ms, 0, mark, broker, queue_id, offset
        )  # fmt: skip

    def text(self) -> str:
        """As the client keeps it."""
        parts = [self.first, self.popped_ms, self.invisible_ms, self.revive, self.mark]
        parts += [self.broker, self.queue_id]
        if self.offset is not None:
            parts.append(self.offset)
        return " ".join(map(str, parts))


class Infos:
    """The fields of an answer that say which messages came of which queues."""

    def __init__(self) -> None:
        self._starts: list[str] = []
        self._offsets: list[str] = []
        self._counts: list[str] = []

    def add(self, mark: str, queue_id: int, first: int, offsets: list[int], times: int) -> None:
        """Messages of one queue: their lease's `first`, their offsets, and how often they have come
        before.
        """
        self._starts.append(f"{mark} {queue_id} {first}")
        self._offsets.append(f"{mark} {queue_id} {','.join(map(str, offsets))}")
        self._counts.append(f"{mark} {queue_id} {times}")

    def fields(self, *, in_order: bool) -> dict[str, str]:
        """The fields."""
        found = {
            "startOffsetInfo": ";".join(self._starts),
            "msgOffsetInfo": ";".join(self._offsets),
        }
        return {**found, "orderCountInfo": ";".join(self._counts)} if in_order else found
