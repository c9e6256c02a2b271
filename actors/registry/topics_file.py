"""`config/topics.json` of a running store: the attributes of all topics, and when to save them.

The registry is its only writer (RocketMQ: TopicConfigManager). Light queues (LMQ) are not in it,
as in RocketMQ: a start finds them by their folders.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import replace

from ...store.config import topics
from ...store.config.topics import DataVersion, TopicConfig
from ...store.disk.files import Folder
from ...store.disk.paths import TOPICS
from ...store.names import is_light_queue
from ..actor import TICK_S
from .refusals import unavailable

_SAVE_DELAY_S = 0.1


class TopicsFile:
    """`configs` holds the attributes by topic, with changes that are not saved yet.

    `unsaved_since` is the time (monotonic seconds) of the first unsaved change, or 0. After a save
    that failed it is the time from which the next save is due.
    """

    def __init__(self, folder: Folder, logger: Any) -> None:
        self._path = f"{folder.path}/{TOPICS}"
        self._logger = logger
        self._saved, report = topics.load(self._path)
        self._main_is_good = report.main_is_good
        self._texts: topics.Texts = {}
        self._delay_s = _SAVE_DELAY_S
        self.configs = dict(self._saved.topics)
        self.unsaved_since = 0.0

    @property
    def version(self) -> DataVersion:
        """The version that was saved last."""
        return self._saved.data_version

    def put(self, config: TopicConfig) -> None:
        """Sets the attributes of a topic that is new or has changed, to be saved soon."""
        self.configs[config.topic_name] = config
        self.unsaved_since = self.unsaved_since or time.monotonic()

    def due_in(self) -> float:
        """Seconds until the unsaved changes are to be saved; zero or less when that is due."""
        return self.unsaved_since + self._delay_s - time.monotonic()

    def save_now(self) -> None:
        """Saves at once. Raises Refused when that fails, so that a request is not acknowledged."""
        self.save()
        if self.unsaved_since:
            raise unavailable(
                "config/topics.json cannot be written: see the store's log, try again"
            )

    def save(self) -> None:
        """Replaces the file. With many topics a save takes long, so the next one waits five times
        as long. A save that fails is logged, and is due again after a second.
        """
        began = time.monotonic()
        version = self._saved.data_version.next(int(time.time() * 1000))
        listed = {name: one for name, one in self.configs.items() if not is_light_queue(name)}
        self._saved = replace(self._saved, topics=listed, data_version=version)
        try:
            topics.save(self._path, self._saved, main_is_good=self._main_is_good, texts=self._texts)
        except OSError as error:
            self._logger.error("cannot save topics.json; trying again", error=str(error))
            self.unsaved_since = time.monotonic() + TICK_S
            return
        self._main_is_good = True
        self.unsaved_since = 0.0
        self._delay_s = max(_SAVE_DELAY_S, 5 * (time.monotonic() - began))
