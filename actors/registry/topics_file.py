"""`config/topics.json` of a running store: the attributes of all topics, and when to save them."""

from __future__ import annotations

import time
from typing import Any

from ...store.config import topics
from ...store.config.topics import TopicConfig
from ...store.disk.files import Folder
from ...store.disk.paths import TOPICS
from ..actor import TICK_S
from .refusals import unavailable

_SAVE_DELAY_S = 0.1


class TopicsFile:
    """What the file says, by topic (`configs`), and what it will say after the next save.

    `unsaved_since` is the time (monotonic seconds) of the first change that is not saved, or 0.
    """

    def __init__(self, folder: Folder, logger: Any) -> None:
        self._path = f"{folder.path}/{TOPICS}"
        self._logger = logger
        saved, _ = topics.load(self._path)
        self._version = saved.data_version
        self._delay_s = _SAVE_DELAY_S
        self.configs = dict(saved.topics)
        self.unsaved_since = 0.0

    def put(self, config: TopicConfig) -> None:
        """A topic is new or has changed."""
        self.configs[config.topic_name] = config
        self.unsaved_since = self.unsaved_since or time.monotonic()

    def due_in(self) -> float:
        """Seconds until a change must be saved; not positive once it is due."""
        return self.unsaved_since + self._delay_s - time.monotonic()

    def save_now(self) -> None:
        """Saves before the answer to a request. Raises Refused when that fails."""
        self.save()
        if self.unsaved_since:
            raise unavailable(
                "config/topics.json cannot be written: see the store's log, try again"
            )

    def save(self) -> None:
        """Replaces the file. With many topics a save takes long, so the next one waits in
        proportion. A save that fails is due again after a while.
        """
        began = time.monotonic()
        self._version = self._version.next(int(time.time() * 1000))
        try:
            topics.save(self._path, topics.TopicTable(self.configs, self._version))
        except OSError as error:
            self._logger.error("cannot save topics.json; trying again", error=str(error))
            self.unsaved_since = time.monotonic() + TICK_S
            return
        self.unsaved_since = 0.0
        self._delay_s = max(_SAVE_DELAY_S, 5 * (time.monotonic() - began))
