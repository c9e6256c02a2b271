"""Deleted topics: `silomq/deleted`, which RocketMQ ignores.

The commit log keeps the records of a deleted topic until they expire, and whoever dispatches them
again would bring the topic back (RocketMQ's does). So each deletion is written down with the log
offset at which it happened: records of that name below it belong to nobody, also when there is a
topic of that name again. It is forgotten when the log begins behind it.

A deletion is decided when it stands here, and `done` when the topic is gone from topics.json and
its queues from `consumequeue/`; only then may the name be used again. A start goes on with what is
not done. JSON: `topics`: name -> {`below`: log offset, `entries`: queue entries that it had when it
was decided, `done`}; `entries`: queue entries that went with finished deletions, which the progress
record's dispatch_count still counts.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from ..config import topics as topics_json
from ..consumequeue.queue import QueueFiles, entries_below, last_entry
from ..disk.files import Folder
from ..disk.paths import TOPICS, StoreFolders
from ..disk.replacing import replace_file
from ..errors import StoreError

FILE_NAME: Final = "deleted"
_ALL: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Deletion:
    """One deleted topic: records below the log offset `below` were its own."""

    below: int
    entries: int
    done: bool = False


@dataclass(slots=True)
class Deletions:
    """The whole file. `folder` is the store's own."""

    folder: Folder
    topics: dict[str, Deletion] = field(default_factory=dict)
    entries: int = 0

    @classmethod
    def read(cls, folder: Folder) -> Deletions:
        """What the file says; nothing without one. Raises StoreError for one that makes no
        sense.
        """
        try:
            data = folder.read(FILE_NAME)
        except FileNotFoundError:
            return cls(folder)
        try:
            found = msgspec.json.decode(data, type=_File)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{folder.path}/{FILE_NAME} is unreadable ({error}): it says which topics were "
                "deleted; restore it from a copy, or remove it, and records of deleted topics that "
                "are still in the log may come back"
            ) from error
        return cls(folder, found.topics, found.entries)

    def write(self) -> None:
        """Replaces the file, durably. Raises OSError."""
        data = msgspec.json.encode(_File(self.topics, self.entries))
        replace_file(self.folder, FILE_NAME, data)

    def below(self, topic: str) -> int:
        """The log offset below which records of that name belong to nobody."""
        found = self.topics.get(topic)
        return found.below if found else 0

    def decide(self, topic: str, below: int, entries: int) -> None:
        """The topic is deleted, whatever happens from now on. Raises OSError."""
        self.topics[topic] = Deletion(below, entries)
        self.write()

    def finish(self, topic: str, entries: int) -> None:
        """All of the topic is gone, and with it so many queue entries. Raises OSError."""
        self.topics[topic] = replace(self.topics[topic], done=True)
        self.entries += entries
        self.write()


class _File(msgspec.Struct):
    topics: dict[str, Deletion] = {}
    entries: int = 0


def remove_queues(folder: Folder, topic: str) -> None:
    """Removes the folders of a topic's queues below `folder` (`consumequeue/`), durably; gone
    already is fine. What is no queue file stays, and its folder with it. Raises OSError.
    """
    try:
        parent = folder.folder(topic)
    except FileNotFoundError:
        return
    with parent:
        for name in parent.names():
            try:
                queue = parent.folder(name)
            except NotADirectoryError:
                continue
            with queue:
                for file in queue.names():
                    with contextlib.suppress(IsADirectoryError):
                        queue.unlink(file)
            _remove_folder(parent, name)
        parent.sync()
    _remove_folder(folder, topic)
    folder.sync()


def _remove_folder(parent: Folder, name: str) -> None:
    with contextlib.suppress(OSError):  # what else is in it is not ours to judge
        parent.remove_folder(name)


def finish_all(folders: StoreFolders, queues: QueueFiles, first: int, end: int) -> list[str]:
    """For a start of the store, whose log goes from offset `first` to `end`: goes on with deletions
    that are not done, and takes away what dispatched a deleted topic again. What was done.

    A log that ends before a deletion (a power cut took what was behind) goes on with records of
    whoever comes next, so the deletion counts up to the end. Raises OSError, StoreError.
    """
    found = Deletions.read(folders.ours)
    if not found.topics:
        return []
    before = (dict(found.topics), found.entries)
    path = f"{folders.config.path}/{TOPICS}"
    table, report = topics_json.load(path)
    notes = []
    for name, deletion in list(found.topics.items()):
        found.topics[name] = replace(deletion, below=min(deletion.below, end))
        if deletion.done:
            if _only_below(queues, name, deletion):
                remove_queues(folders.consume_queue, name)
            continue
        found.entries += max(_entries(queues, name), deletion.entries)
        notes.append(f"topic {name}: its deletion was finished")
        remove_queues(folders.consume_queue, name)
        if name in table.topics:
            table = table.without_topic(name, table.data_version.timestamp)
            topics_json.save(path, table, keep_backup=report.source != "backup")
        found.topics[name] = replace(found.topics[name], done=True)
    for name, deletion in list(found.topics.items()):
        if deletion.below <= first:
            del found.topics[name]
    if before != (found.topics, found.entries):
        found.write()
    return notes


def _entries(queues: QueueFiles, topic: str) -> int:
    """How many entries the topic's queues have had."""
    found = queues.queues_of(topic)
    return sum(entries_below(folder, queues.file_size, _ALL) for _, _, folder in found)


def _only_below(queues: QueueFiles, topic: str, deletion: Deletion) -> bool:
    """Whether there are queues of that name, and all they lead to are records of before the
    deletion: RocketMQ dispatched them, which does not know of it.
    """
    last = [last_entry(folder, queues.file_size) for _, _, folder in queues.queues_of(topic)]
    return bool(last) and all(entry is None or entry[0] < deletion.below for entry in last)
