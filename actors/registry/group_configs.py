"""The settings of consumer groups, in RocketMQ's `config/subscriptionGroup.json`. The registry is
their only writer (RocketMQ: SubscriptionGroupManager).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...store.config import offsets
from ...store.config.offsets import GroupConfig
from ...store.disk.files import Folder


class GroupConfigs:
    """The settings of all groups by name, and the file that keeps them. Raises Corrupt when neither
    the file nor its backup can be read.
    """

    def __init__(self, folder: Folder, logger: Any) -> None:
        self.path = os.path.join(folder.path, offsets.GROUPS_FILE)
        self.known, problems = offsets.load_groups(self.path)
        for problem in problems:
            logger.error("consumer groups", problem=problem)

    def get(self, group: str) -> GroupConfig:
        """The settings of a group. A new group gets RocketMQ's defaults, which are saved at once.
        Raises OSError when they cannot be saved.
        """
        found = self.known.get(group)
        if found is None:
            found = self.known[group] = GroupConfig(group)
            try:
                self._save()
            except OSError:
                del self.known[group]
                raise
        return found

    def change(self, group: str, values: Mapping[str, Any]) -> GroupConfig:
        """Sets some of a group's settings, by their fields' names, and saves. Raises OSError."""
        before = self.known.get(group)
        found = self.known[group] = replace(before or GroupConfig(group), **values)
        try:
            self._save()
        except OSError:
            if before is None:
                del self.known[group]
            else:
                self.known[group] = before
            raise
        return found

    def forget(self, group: str) -> None:
        """Removes the settings of a group, if it has any, and saves. Raises OSError."""
        found = self.known.pop(group, None)
        if found is not None:
            try:
                self._save()
            except OSError:
                self.known[group] = found
                raise

    def __contains__(self, group: str) -> bool:
        return group in self.known

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def _save(self) -> None:
        self.known.data_version = self.known.data_version.next(int(time.time() * 1000))
        offsets.save_groups(self.path, self.known)
