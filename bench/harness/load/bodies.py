"""The messages that a producer sends, made ready before the start and sent in turn."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .protocol import STAMP

if TYPE_CHECKING:
    from .protocol import Order

_MOST_MESSAGES = 4096
_LEAST_MESSAGES = 8
#: Memory that the messages of one producer may take.
_MOST_BYTES = 32 << 20


class Ready(NamedTuple):
    """A message without its stamp."""

    topic: str
    tail: bytes
    tag: str
    key: str


class Messages:
    """`ready` is sent again and again. Topics and tags come in turn, keys and sizes by `seed`."""

    def __init__(self, order: Order) -> None:
        chance = random.Random(order.seed * 1009 + order.index)  # noqa: S311 - no secret
        sizes = order.sizes
        mean = sum(sizes.values) / len(sizes.values)
        count = int(max(_LEAST_MESSAGES, min(_MOST_MESSAGES, _MOST_BYTES / mean)))
        # Each topic and each tag has its turn, in whole rounds.
        count = max(count, len(order.topics))
        count += -count % max(1, len(order.tags))
        weights = sizes.weights or None
        drawn = chance.choices(sizes.values, weights, k=count)
        data = Path(order.payload).read_bytes()
        self.ready = []
        first = order.index * len(order.topics) // max(1, order.workers)
        for n, size in enumerate(drawn):
            length = size - STAMP
            at = chance.randrange(max(1, len(data) - length))
            topic = order.topics[(first + n) % len(order.topics)]
            tag = order.tags[n % len(order.tags)] if order.tags else ""
            key = f"key{chance.randrange(order.keys)}" if order.keys else ""
            self.ready.append(Ready(topic, data[at : at + length], tag, key))
        self._ends = list(accumulate(STAMP + len(one.tail) for one in self.ready))
        self._sent = self._bytes = 0

    def size_of(self, count: int) -> int:
        """Bytes of the next `count` bodies."""
        self._sent += count
        rounds, rest = divmod(self._sent, len(self._ends))
        before = self._bytes
        self._bytes = rounds * self._ends[-1] + (self._ends[rest - 1] if rest else 0)
        return self._bytes - before
