"""Look-ups by store time in a queue: the exact ones, and RocketMQ 4's.

All search binarily, so the store times of a queue must ascend. Those that append wrote always do.
RocketMQ's do not if its machine's clock was set back. Then the result is *a* place where the times
cross the given one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from .queue import ENTRY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Returned instead of a store time: the record lies before the log's beginning, or is unreadable.
BEFORE_LOG: Final = -2
UNREADABLE: Final = -1


class QueueFile(NamedTuple):
    """A file of a queue: bytes [base, base + wrote) of the queue are entries. `modified_ms` is the
    time of the last write to the file, epoch ms.
    """

    base: int
    wrote: int
    modified_ms: int


def first_since(time_of: Callable[[int], int], low: int, high: int, timestamp: int) -> int:
    """The first queue offset of [low, high) whose message was stored at `timestamp` (epoch ms) or
    later; `high` without one.
    """
    return low + bisect_left(range(low, high), timestamp, key=time_of)


def last_until(time_of: Callable[[int], int], low: int, high: int, timestamp: int) -> int:
    """The last queue offset of [low, high) whose message was stored at `timestamp` (epoch ms) or
    earlier; `low` - 1 without one.
    """
    return low + bisect_right(range(low, high), timestamp, key=time_of) - 1


def rocketmq_offset(
    files: Sequence[QueueFile],
    min_position: int,
    timestamp: int,
    time_at: Callable[[QueueFile, int], int],
) -> int:
    """The queue offset that RocketMQ 4.x's `getOffsetInQueueByTime` returns for `timestamp` (epoch
    ms).

    It takes the first file that was last written at or after `timestamp`. There it finds the entry
    nearest in store time, the older of two equally near ones. `files` ascend, the queue begins at
    byte `min_position`. `time_at` gives the store time of the entry at a position of a file,
    BEFORE_LOG or UNREADABLE.
    """
    file = next((f for f in files if f.modified_ms >= timestamp), files[-1] if files else None)
    if file is None or not file.wrote:
        return 0
    low = max(0, min_position - file.base) // ENTRY_SIZE
    high = file.wrote // ENTRY_SIZE - 1
    left, left_time, right, right_time = -1, -1, -1, -1
    while high >= low:
        middle = (low + high) // 2
        stored = time_at(file, middle * ENTRY_SIZE)
        if stored == BEFORE_LOG:
            low, left = middle + 1, middle
            continue
        if stored < 0:
            return 0
        if stored == timestamp:
            left, left_time, right_time = middle, stored, -1
            break
        if stored > timestamp:
            high, right, right_time = middle - 1, middle, stored
        else:
            low, left, left_time = middle + 1, middle, stored
    if left_time == -1:
        chosen = right
    elif right_time == -1:
        chosen = left
    else:
        chosen = right if timestamp - left_time > right_time - timestamp else left
    if chosen < 0:  # as Java's (start - 1) / 20, which rounds towards zero
        return max(0, file.base - 1) // ENTRY_SIZE
    return file.base // ENTRY_SIZE + chosen
