"""Which groups pop a topic, in RocketMQ's `config/messageRequestMode.json`. The registry is its
only writer.
"""

from __future__ import annotations

import os
from typing import Any

from ...shm.protocol.pop_answers import (
    Mode,
    Modes,
)
from ...shm.protocol.pops import SetMode
from ...store.config import request_modes
from ...store.disk.files import Folder
from ...store.names import validate_group, validate_topic
from .refusals import illegal

_MOST = 10_000


class ModesFile:
    """The modes, and the file that keeps them. Raises Corrupt when neither the file nor its backup
    can be read.
    """

    def __init__(self, folder: Folder, logger: Any) -> None:
        self._path = os.path.join(folder.path, request_modes.MODES_FILE)
        self._modes, report = request_modes.load(self._path)
        self._main_is_good = report.main_is_good
        if report.problem:
            logger.error("modes of groups", problem=report.problem)

    def set(self, request: SetMode) -> None:
        """Sets a mode and saves it. Raises Refused, IllegalMessage, OSError."""
        validate_topic(request.topic)
        validate_group(request.group)
        modes = {**self._modes, (request.topic, request.group): (request.mode, request.share)}
        if len(modes) > _MOST:
            raise illegal(f"more than {_MOST} groups and topics have a mode")
        request_modes.save(self._path, modes, main_is_good=self._main_is_good)
        self._modes, self._main_is_good = modes, True

    def answer(self) -> Modes:
        """All modes."""
        return Modes(
            modes=[
                Mode(topic, group, mode, share)
                for (topic, group), (mode, share) in self._modes.items()
            ]
        )
