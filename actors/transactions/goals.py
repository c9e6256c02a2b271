"""`Goals`: the queues for which the process makes records. A topic that cannot be made now is not
asked for again at once, so that it holds up nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..actor import World
from ..goal_topics import NoRegistry, NoTopic, find_slot

PAUSE_MS: Final = 1000
_MOST_TOPICS: Final = 1024


class Goals:
    """Finds slots by `find_slot`. `beat` is called before each question, which may take 2 s."""

    def __init__(self, world: World, beat: Callable[[], object]) -> None:
        self._world = world
        self._beat = beat
        # Topic -> (epoch ms until which it is not asked for, why). The key "" stands for all.
        self._paused: dict[str, tuple[int, str]] = {}

    def slot(self, topic: str, queue_id: int, now_ms: int) -> tuple[int, int]:
        """(slot, queue id) of the queue for a record. Raises as `find_slot`."""
        if self._world.table.find(topic) is None:
            for key in ("", topic):
                until, why = self._paused.get(key, (0, ""))
                if now_ms < until <= now_ms + PAUSE_MS:
                    raise NoTopic(why)
            self._beat()
        try:
            return find_slot(self._world, topic, queue_id)
        except NoTopic as error:
            if len(self._paused) >= _MOST_TOPICS:
                self._paused.clear()
            key = "" if isinstance(error, NoRegistry) else topic
            self._paused[key] = now_ms + PAUSE_MS, str(error)
            raise
