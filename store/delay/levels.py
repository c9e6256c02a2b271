"""RocketMQ's delay levels (`messageDelayLevel`): how long a message of each level waits."""

from __future__ import annotations

from typing import Final

#: The delays of level 1, 2, and so on. A level above the last counts as the last.
DELAY_LEVELS_MS: Final = (
    *(1000 * s for s in (1, 5, 10, 30)),
    *(60_000 * m for m in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(3_600_000 * h for h in (1, 2)),
)
MAX_DELAY_LEVEL: Final = len(DELAY_LEVELS_MS)
