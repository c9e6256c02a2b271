"""The settings of logging while a store runs: the supervisor reads them again on SIGHUP, and all
processes use them from then on.

The supervisor alone writes the word `logging` of the control block. An actor looks at it with each
heartbeat. Other settings need a restart, and the log line names those that have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..actors.actor import World
from ..conf.logging import configure, to_word
from ..conf.settings import SettingError, Settings
from ..store.errors import StoreError


class LoggingSettings:
    """Publishes the level and the format of log lines. `reread` reads the settings again, from
    where they were read at the start.
    """

    def __init__(self, world: World, reread: Callable[[], Settings], logger: Any) -> None:
        self.asked = False
        self._world = world
        self._reread = reread
        self._logger = logger
        self._word = world.control.own("logging")
        self._publish()

    def _publish(self) -> None:
        settings = self._world.settings
        self._word.store(to_word(settings.log_level, settings.log_format))

    def ask(self, _number: int, _frame: object) -> None:
        """The handler of SIGHUP."""
        self.asked = True

    def read(self) -> None:
        """Reads the settings again. Settings that cannot be read are logged, and change nothing."""
        self.asked = False
        world = self._world
        try:
            fresh = self._reread()
        except (SettingError, StoreError, OSError) as error:
            self._logger.error("cannot read the settings again: nothing changes", error=str(error))
            return
        names = Settings.__struct_fields__
        changed = [n for n in names if getattr(fresh, n) != getattr(world.settings, n)]
        level, fmt = fresh.log_level, fresh.log_format
        world.settings = msgspec.structs.replace(world.settings, log_level=level, log_format=fmt)
        self._publish()
        configure(world.store_name, "supervisor", level, fmt)
        self._logger.info(
            "read the settings again",
            log_level=level,
            log_format=fmt,
            need_a_restart=[name for name in changed if not name.startswith("log_")],
        )
