"""The settings of consumer groups, in RocketMQ's `config/subscriptionGroup.json`. The registry is
their only writer (RocketMQ: SubscriptionGroupManager).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...store.config import offsets
from ...store.config.offsets import GroupConfig
from ...store.config.topics import DataVersion
from ...store.disk.files import Folder

_PAGE = 500
#: RocketMQ's bit in forbiddenTable: the group may not read the topic.
_READ = 4


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

    def forbidden(self, group: str) -> list[str]:
        """The topics that a group may not read."""
        return sorted(t for t, bits in self.known.forbidden.get(group, {}).items() if bits & _READ)

    def forbid(self, group: str, topic: str, *, readable: bool) -> None:
        """Forbids a group to read a topic, or allows it again, and saves. Raises OSError."""
        before = self.known.forbidden
        topics = dict(before.get(group, {}))
        bits = topics.get(topic, 0) & ~_READ | (0 if readable else _READ)
        topics = (
            {**topics, topic: bits} if bits else {t: b for t, b in topics.items() if t != topic}
        )
        after = {name: held for name, held in before.items() if name != group}
        self.known.forbidden = {**after, group: topics} if topics else after
        try:
            self._save()
        except OSError:
            self.known.forbidden = before
            raise

    def page(self, after: str, only: str) -> tuple[dict[str, dict[str, Any]], bool]:
        """The settings of up to 500 groups whose names come after `after`, or of the one group
        `only`, each as the file has it, and whether there are more.
        """
        named = [only] if only else self.known
        names = sorted(name for name in named if name > after and name in self.known)
        return {name: offsets.bean(self.known[name]) for name in names[:_PAGE]}, len(names) > _PAGE

    @property
    def version(self) -> DataVersion:
        """The version of the file."""
        return self.known.data_version

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
