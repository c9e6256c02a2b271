"""Store times of the messages in a queue, and the queue offsets that belong to a time."""

from __future__ import annotations

import errno
from typing import Literal

from ...store.consumequeue import time_lookup
from ...store.consumequeue.queue import ENTRY_SIZE
from ...store.errors import Corrupt
from ...store.reading.running_store import ServedLog, ServedQueue

Boundary = Literal["lower", "upper"]


class QueueTimes:
    """Looks up times (epoch ms) in the queues of the store whose commit log is `log`.

    The methods raise FileNotFoundError when clean removes the queue's first files meanwhile: call
    them through `ServedQueue.patiently`.
    """

    def __init__(self, log: ServedLog) -> None:
        self._log = log

    def time_of(self, queue: ServedQueue, offset: int) -> int:
        """The store time of the message at queue offset `offset`. Raises Corrupt where the queue
        entry leads to no record.
        """
        at, size, _ = queue.entry(offset)
        stored = self._log.store_time(at, size)
        if stored == time_lookup.BEFORE_LOG:
            raise FileNotFoundError(errno.ENOENT, "removed", f"{self._log.path}, offset {at}")
        if stored < 0:
            raise Corrupt(self._log.path, at, f"no record of {size} bytes, as {queue} says")
        return stored

    def offset_at(self, queue: ServedQueue, timestamp: int, boundary: Boundary) -> int:
        """The first queue offset stored at `timestamp` or later ("lower"; the queue's end without
        one). With "upper", the last one stored then or earlier (-1 without one).
        """
        low, high = queue.least, queue.end

        def time_of(offset: int) -> int:
            return self.time_of(queue, offset)

        if boundary == "lower":
            return time_lookup.first_since(time_of, low, high, timestamp)
        found = time_lookup.last_until(time_of, low, high, timestamp)
        return found if found >= low else -1

    def rocketmq_offset(self, queue: ServedQueue, timestamp: int) -> int:
        """The answer of RocketMQ 4's getOffsetInQueueByTime."""

        def time_at(file: time_lookup.QueueFile, position: int) -> int:
            at, size, _ = queue.entry((file.base + position) // ENTRY_SIZE)
            return self._log.store_time(at, size)

        return time_lookup.rocketmq_offset(
            queue.files(), queue.least * ENTRY_SIZE, timestamp, time_at
        )
