"""When a message with a delay level is due (setting `message_delay_level`).

Dispatch writes the due time into the third field of the message's queue entry. The setting may have
changed since, or the machine's clock.
"""

from __future__ import annotations

from typing import Final

# A store time that is further ahead of the clock was given out before the clock was set back.
_CLOCK_SLACK_MS: Final = 1000


def is_believed(entry_due_ms: int, now_ms: int, delay_ms: int) -> bool:
    """Whether the due time (epoch ms) in a queue entry counts as it stands: it is a time, and it is
    no further ahead than the level's delay of today.
    """
    return 0 <= entry_due_ms <= now_ms + delay_ms + _CLOCK_SLACK_MS


def due_ms(store_time_ms: int, now_ms: int, delay_ms: int) -> int:
    """When a message is due (epoch ms) whose entry is not believed: the level's delay of today
    after its store time. Now, if it was stored in the future: the clock was set back since.
    """
    return now_ms if store_time_ms > now_ms + _CLOCK_SLACK_MS else store_time_ms + delay_ms
