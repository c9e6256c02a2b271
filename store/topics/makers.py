"""Who made a topic or a consumer group: `silomq/makers`, which RocketMQ ignores.

The registry adds a line when it makes a topic, before any record can be in it. So a start after the
death of all processes gives such a topic all its queues, although topics.json is saved only later.
And a registry knows how many topics and groups each user has made (`max_topics_per_uid`).

A line is a JSON object: `topic` with `queues`, or `group`; and `uid`, the user who made it, -1 for
one that is gone. The last line of a name counts. Lines are not synced, so a power cut may take the
last ones. What is no such line is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from ..disk import files as disk
from ..disk.files import Folder
from ..disk.replacing import replace_file

FILE_NAME: Final = "makers"
#: A file of more bytes was not written by a registry.
_MOST: Final = 1 << 30
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class Line(msgspec.Struct, omit_defaults=True):
    """One line of the file."""

    uid: Annotated[int, msgspec.Meta(ge=-1, lt=2**32)]
    topic: _Name = ""
    queues: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    group: _Name = ""


class Makers(msgspec.Struct):
    """The contents of the file: the users who made topics and groups, and how many queues the
    topics had then. `lines` counts those of the file.
    """

    topics: dict[str, int] = {}
    queues: dict[str, int] = {}
    groups: dict[str, int] = {}
    lines: int = 0

    def take(self, line: Line) -> None:
        """Notes a line."""
        self.lines += 1
        if line.uid < 0:
            self.topics.pop(line.topic, None)
            self.queues.pop(line.topic, None)
            self.groups.pop(line.group, None)
        elif line.topic:
            self.topics[line.topic] = line.uid
            self.queues[line.topic] = line.queues
        elif line.group:
            self.groups[line.group] = line.uid


def read(folder: Folder) -> Makers:
    """What the file in `silomq/` says; nothing if there is none. Raises OSError."""
    found = Makers()
    decoder = msgspec.json.Decoder(Line)
    try:
        if folder.size(FILE_NAME) > _MOST:
            return found
        data = folder.read(FILE_NAME)
    except FileNotFoundError:
        return found
    for text in data.splitlines():
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found.take(decoder.decode(text))
    return found


def add(folder: Folder, line: Line) -> None:
    """Adds a line. Raises OSError."""
    with folder.file(FILE_NAME, write=True, create=True) as fd:
        # In one write: a line that was cut off by a full disk ends here.
        disk.append(fd, b"\n" + msgspec.json.encode(line))


def replace(folder: Folder, lines: Iterable[Line]) -> None:
    """Replaces the file, durably. Raises OSError."""
    replace_file(folder, FILE_NAME, b"\n".join(map(msgspec.json.encode, lines)))
