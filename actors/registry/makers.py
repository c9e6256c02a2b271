"""Who made topics and groups, and how many one user may make.

The store's own user and root may make as many as the store has room for. Without a limit for each
other user, one of them could use up `max_topics`, or fill the files in `config/`. The retry topic
of a group is a topic of whoever made it. What a user has made stays its own until it is deleted,
over restarts too (`store/topics/makers.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from ...conf.settings import Settings
from ...shm.protocol.pops import Look, Pop
from ...shm.protocol.requests import AnyRequest, Join, Keep, OpenGroup, Remote, Reset, SetGroup
from ...store.disk.files import Folder
from ...store.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from ...store.topics import makers
from ...store.topics.makers import Line
from .access import Peer
from .group_offsets import broadcast_key
from .members import BROADCASTING
from .refusals import unavailable

#: So many lines that count no more are no reason to write the file anew.
_FEW: Final = 1000
#: Made by the store's own user or root, who have no limits: the same as root.
_NOBODY: Final = 0
_OWNER: Final = Peer(0, allowed=True, owner=True, admin=True)


class Makers:
    """`peer` is the user for whom the registry works now."""

    def __init__(self, settings: Settings, folder: Folder, logger: Any) -> None:
        self.peer = _OWNER
        self._most_topics = settings.max_topics_per_uid
        self._most_groups = settings.max_groups_per_uid
        self._folder = folder
        self._logger = logger
        self._made = makers.read(folder)
        self.topics = Counter(self._made.topics.values())
        self.groups = Counter(self._made.groups.values())

    # -- topics

    def check_topic(self, name: str) -> None:
        """Raises Refused if the user may not make one more topic."""
        most, uid = self._most_topics, self.peer.uid
        if most and not self.peer.owner and _counts(name) and self.topics[uid] >= most:
            raise unavailable(
                f"topic {name}: user {uid} has made {self.topics[uid]} topics, as many as it may: "
                "delete some, or raise max_topics_per_uid"
            )

    def made_topic(self, name: str, queues: int) -> None:
        """Notes a new topic, before its first record."""
        uid = self.peer.uid if _counts(name) and not self.peer.owner else _NOBODY
        self.topics[self._made.topics.get(name, _NOBODY)] -= 1
        self.topics[uid] += 1
        self._add(Line(uid, topic=name, queues=queues))

    def lost_topic(self, name: str) -> None:
        """Notes that a topic is deleted."""
        if name in self._made.topics:
            self.topics[self._made.topics[name]] -= 1
            self._add(Line(-1, topic=name))

    # -- groups

    def check_group(self, group: str) -> None:
        """Raises Refused if the user may not make one more group. `group` is a new one."""
        most, uid = self._most_groups, self.peer.uid
        if most and not self.peer.owner and self.groups[uid] >= most:
            raise unavailable(
                f"group {group}: user {uid} has made {self.groups[uid]} groups, as many as it may: "
                "delete some, or raise max_groups_per_uid"
            )

    def knows_group(self, group: str) -> bool:
        """Whether a group was made already, and by whom is known."""
        return group in self._made.groups

    def made_group(self, group: str) -> None:
        """Notes a new group."""
        self.groups[self.peer.uid] += 1
        self._add(Line(self.peer.uid, group=group))

    def lost_group(self, group: str) -> None:
        """Notes that a group is deleted."""
        uid = self._made.groups.get(group)
        if uid is not None:
            self.groups[uid] -= 1
            self._add(Line(-1, group=group))

    # -- the file

    def _add(self, line: Line) -> None:
        self._made.take(line)
        try:
            makers.add(self._folder, line)
        except OSError as error:
            # The topic is made all the same: nothing but what this file is for suffers.
            self._logger.error("cannot note who made a topic or group", error=str(error))

    def tidy(self) -> None:
        """Drops lines that count no more. To be called when topics.json has been saved."""
        made = self._made
        lines = [
            Line(uid, topic=name, queues=made.queues[name])
            for name, uid in made.topics.items()
            if uid != _NOBODY
        ]
        lines += [Line(uid, group=name) for name, uid in made.groups.items()]
        if made.lines <= 2 * len(lines) + _FEW:
            return
        try:
            makers.replace(self._folder, lines)
        except OSError as error:
            self._logger.error("cannot write silomq/makers anew", error=str(error))
            return
        self._made = makers.Makers()
        for line in lines:
            self._made.take(line)


def _counts(name: str) -> bool:
    """Whether a topic is somebody's. Those of the store itself are nobody's."""
    return name.startswith((RETRY_PREFIX, DLQ_PREFIX)) or not is_system_topic(name)


def group_of(request: AnyRequest) -> str:
    """The group that a request makes if it is new; "" for a request that makes none."""
    match request:
        case Join(model=model, instance=instance, group=group) if model == BROADCASTING:
            return broadcast_key(group, instance, 0) if instance else group
        case Join() | Keep() | Remote() | SetGroup() | Pop() | Look() | Reset():
            return request.group
        case OpenGroup(make=True):
            return request.group
        case _:
            return ""
