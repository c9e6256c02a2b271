"""Deleted topics: `silomq/deleted`, a JSON file which RocketMQ ignores.

The commit log keeps the records of a deleted topic until they expire. A start that dispatches them
again would bring the topic back, as it does in RocketMQ. So the registry writes each deletion down
with the log offset at which it happened. Records of that name below it belong to no topic, also
when a topic of that name exists again. A deletion is forgotten when the log begins behind it.

A deletion is decided once it stands in the file. It is `done` once the topic is gone from
topics.json and its queues from `consumequeue/`; only then may the name be used again. The next
start finishes deletions that are not done.

The file holds `topics`: name -> {`below`: log offset, `entries`: queue entries that the topic had
when the deletion was decided, `done`}. And it holds `entries`: queue entries that went with
finished deletions, which the dispatch_count of the progress record still counts. Its previous
state stays as `deleted.bak`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from ..config import topics as topics_json
from ..config.fastjson import Parsed, load_file, loads, number, save_file, typed
from ..consumequeue.queue import QueueFiles, entries_below, last_entry
from ..disk.files import Folder
from ..disk.paths import TOPICS, StoreFolders
from ..errors import IllegalMessage
from ..names import validate_topic

FILE_NAME: Final = "deleted"
_ALL: Final = 1 << 62


class Deletion(msgspec.Struct, frozen=True):
    """One deleted topic: records of its name below the log offset `below` belonged to it."""

    below: int
    entries: int
    done: bool = False


class Deletions(msgspec.Struct):
    """The contents of the file. `folder` is `silomq/`, the folder of the store's own files.

    `problem` is for the log: what was bad about the file, or "". If not `main_is_good`, the next
    `write` keeps the bad file.
    """

    folder: Folder
    topics: dict[str, Deletion] = {}
    entries: int = 0
    problem: str = ""
    main_is_good: bool = True

    @classmethod
    def read(cls, folder: Folder) -> Deletions:
        """What the file or, if that is unreadable, its backup says; no deletions if there is
        neither. A bad entry is left out, and `problem` says so. Raises Corrupt.
        """
        path = f"{folder.path}/{FILE_NAME}"
        found, report = load_file(path, _parse, _File)
        return cls(folder, found.topics, found.entries, report.problem or "", report.main_is_good)

    def write(self) -> None:
        """Replaces the file, durably. Raises OSError."""
        text = msgspec.json.encode(_File(self.topics, self.entries)).decode()
        path = f"{self.folder.path}/{FILE_NAME}"
        save_file(path, text, main_is_good=self.main_is_good)
        self.main_is_good = True

    def below(self, topic: str) -> int:
        """The log offset below which records of that name belong to no topic."""
        found = self.topics.get(topic)
        return found.below if found else 0

    def decide(self, topic: str, below: int, entries: int) -> None:
        """Writes down that the topic is deleted: from now on no crash takes it back. Raises
        OSError.
        """
        self.topics[topic] = Deletion(below, entries)
        self.write()

    def finish(self, topic: str, entries: int) -> None:
        """Writes down that all of the topic is gone, and `entries` queue entries with it. Raises
        OSError.
        """
        self.topics[topic] = replace(self.topics[topic], done=True)
        self.entries += entries
        self.write()


class _File(msgspec.Struct):
    topics: dict[str, Deletion] = msgspec.field(default_factory=dict)
    entries: int = 0


def _parse(text: str, backup: Parsed[_File] | None = None) -> Parsed[_File]:
    """The file in a text. Deletions that are bad come from `backup`. Raises ValueError."""
    root = typed(loads(text), dict, "the file")
    parsed = Parsed(_File({}, 0))
    for key, value in typed(root.get("topics", {}), dict, "topics").items():
        name = str(key)
        try:
            validate_topic(name)
            about = typed(value, dict, f"the deletion of {name}")
            parsed.value.topics[name] = Deletion(
                number(about, "below", -1),
                number(about, "entries", -1),
                typed(about.get("done", False), bool, f"done of the deletion of {name}"),
            )
        except (ValueError, IllegalMessage) as error:
            parsed.bad.append(f"the deletion of {name[:200]!a}: {error}")
            if backup is not None and name in backup.value.topics:
                parsed.value.topics[name] = backup.value.topics[name]
    try:
        parsed.value.entries = number(root, "entries", 0)
    except ValueError as error:
        parsed.bad.append(str(error))
        parsed.value.entries = backup.value.entries if backup is not None else 0
    return parsed


def remove_queues(folder: Folder, topic: str) -> None:
    """Removes the folders of a topic's queues below `folder` (`consumequeue/`), durably. Folders
    that are gone already are no error. Whatever is no queue file stays, and its folder with it.
    Raises OSError.
    """
    try:
        parent = folder.folder(topic)
    except FileNotFoundError:
        folder.sync()  # a killed process may have removed it, and not have synced that
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
    with contextlib.suppress(OSError):  # it holds something that is not the store's
        parent.remove_folder(name)


class DeletionsPlan(msgspec.Struct, frozen=True):
    """What a start has to do about deleted topics.

    `topics` and `entries` are the file's content afterwards; `changed` says that it differs from
    the present one. The deletions of `finished` were decided but not done. Those of
    `dispatched_again` were done, but their queues are there again.
    """

    topics: Mapping[str, Deletion]
    entries: int
    changed: bool = False
    finished: tuple[str, ...] = ()
    dispatched_again: tuple[str, ...] = ()

    @property
    def without_queues(self) -> tuple[str, ...]:
        """The topics whose queue folders a start removes."""
        return self.finished + self.dispatched_again

    def below(self, topic: str) -> int:
        """The log offset below which records of that name belong to no topic."""
        found = self.topics.get(topic)
        return found.below if found else 0

    def counted_anew(self) -> DeletionsPlan:
        """The same plan for a store whose dispatch_count begins at zero. It will count no entries
        of deleted topics.
        """
        return replace(self, entries=0, changed=True) if self.entries else self


def plan_deletions(found: Deletions, queues: QueueFiles, first: int, end: int) -> DeletionsPlan:
    """Plans for a start which deletions to finish, and which queues of deleted topics to remove
    because RocketMQ dispatched them again. The log has the offsets from `first` to `end`. Changes
    no file.

    A power cut may have shortened the log to before a deletion. Then new records will stand there,
    so the deletion counts only up to the end of the log. Raises OSError.
    """
    topics: dict[str, Deletion] = {}
    finished, dispatched_again, entries = [], [], found.entries
    for name, deletion in found.topics.items():
        if not deletion.done:
            finished.append(name)
            entries += max(_entries(queues, name), deletion.entries)
        elif _only_below(queues, name, deletion):
            dispatched_again.append(name)
        below = min(deletion.below, end)
        if below > first:
            topics[name] = replace(deletion, below=below, done=True)
    changed = (topics, entries) != (found.topics, found.entries)
    return DeletionsPlan(topics, entries, changed, tuple(finished), tuple(dispatched_again))


def finish(plan: DeletionsPlan, folders: StoreFolders) -> None:
    """Carries out the plan. The file is written last: if the start is killed before, the next one
    does all of it again. Raises OSError, StoreError.
    """
    for name in plan.without_queues:
        remove_queues(folders.consume_queue, name)
    if plan.finished:
        path = f"{folders.config.path}/{TOPICS}"
        before, report = topics_json.load(path)
        table = before
        for name in plan.finished:
            table = table.without_topic(name, table.data_version.timestamp)
        if table is not before:
            topics_json.save(path, table, main_is_good=report.main_is_good)
    if plan.changed:
        found = Deletions.read(folders.ours)
        found.topics, found.entries = dict(plan.topics), plan.entries
        found.write()


def _entries(queues: QueueFiles, topic: str) -> int:
    """How many entries the topic's queues ever had."""
    found = queues.queues_of(topic)
    return sum(entries_below(folder, queues.file_size, _ALL) for _, _, folder in found)


def _only_below(queues: QueueFiles, topic: str, deletion: Deletion) -> bool:
    """Whether queues of that name exist and lead only to records from before the deletion.
    RocketMQ, which does not know of the deletion, dispatched those.
    """
    last = [last_entry(folder, queues.file_size) for _, _, folder in queues.queues_of(topic)]
    return bool(last) and all(entry is None or entry[0] < deletion.below for entry in last)
