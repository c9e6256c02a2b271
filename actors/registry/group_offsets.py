"""How far the consumer groups are: the registry's memory of it, and the files that keep it.

A group's progress is held in three places, each for another failure:

- The ack file of a living member. The member itself writes it with each acknowledgement
  (`store/groups/ack_file.py`), and it survives the death of every process.
- `config/consumerOffset.json`, RocketMQ's file. It is replaced durably every few seconds and at the
  end. What RocketMQ does not know, the progress of broadcasting members, has a file of its own.
- `GroupProgress.known`, which also holds the queues that no member reads now.

When a member is gone, its ack file is *folded* into `known`. The ack file is removed once the JSON
file holds what it said. JSON cannot hold messages that were acknowledged out of order: then the ack
file stays until the file of another member takes them over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...store.config import offsets as offsets_json
from ...store.disk.files import Folder
from ...store.errors import Corrupt
from ...store.groups import ack_file
from ...store.groups.ack_file import About, AckReader, Progress, Queue
from ..actor import World

Key = tuple[str, str, int]  # group, topic, queue id
BROADCAST = "%BROADCAST%"
_NAMELESS = f"{BROADCAST}#"
_RESET = "reset"
_BROADCAST_FILE = "broadcastOffset.json"


def broadcast_key(group: str, instance: str, session: int) -> str:
    """The name under which a broadcasting member's own progress is kept.

    A member without an instance's name shares its progress with nobody, now or later: no instance
    may have a `#` in its name. Only the ack file keeps that progress, while the member lives.
    """
    return f"{BROADCAST}{instance}%{group}" if instance else f"{_NAMELESS}{session}%{group}"


class GroupProgress:
    """Progress of all groups. Raises Corrupt when an offset file and its backup cannot be read."""

    def __init__(self, world: World, logger: Any) -> None:
        self.logger = logger
        self.folder: Folder = world.folders.ours.folder("groups", create=True)
        paths = (
            (world.folders.config.path, offsets_json.OFFSETS_FILE),
            (
                world.folders.ours.path,
                _BROADCAST_FILE,
            ),
        )
        self.paths = [os.path.join(*parts) for parts in paths]
        self.files = [self._load(path) for path in self.paths]
        self.known: dict[Key, Progress] = {}
        for file in self.files:
            for (topic, group), queues in file.items():
                for queue_id, offset in queues.items():
                    self.known[group, topic, queue_id] = Progress(offset)
        self.living: dict[int, AckReader] = {}
        self.gone: list[int] = []
        self._only_in: dict[Key, int] = {}  # acknowledged out of order, and nowhere but in a file
        self._resets: dict[Key, int] = {}  # by which file a group was put elsewhere last
        self._number = time.time_ns()

    def _load(self, path: str) -> offsets_json.GroupOffsets:
        offsets, problems = offsets_json.load(path)
        for problem in problems:
            self.logger.error("consumer offsets", problem=problem)
        return offsets

    def take_over(self, sessions: Iterable[int]) -> list[AckReader]:
        """Takes over what a killed registry or a dead store left. The newest ack file of each of
        `sessions` still belongs to its member and is returned. All others are folded in.
        """
        saved = dict(self.known)
        alive = set(sessions)
        readers = []
        for number in ack_file.numbers(self.folder):
            self._number = max(self._number, number)
            try:
                readers.append(AckReader(self.folder, number))
            except Corrupt as error:
                # A power cut did this. What the JSON file says is what is left.
                self.logger.warning("dropped an ack file that was not whole", error=str(error))
                ack_file.remove(self.folder, number)
        newest = {r.about.session: r.number for r in readers if r.about.session in alive}
        kept = []
        for reader in readers:
            self._fold(reader)
            if newest.get(reader.about.session) == reader.number:
                self.living[reader.number] = reader
                kept.append(reader)
            else:
                self.gone.append(reader.number)
        for key, progress in saved.items():
            # The JSON file is the newer one where a power cut has taken pages of ack files.
            if progress.offset > self.known[key].offset:
                self.known[key] = progress
        nameless = {group for group, _, _ in self.known if group.startswith(_NAMELESS)}
        for group in nameless - {reader.about.group for reader in kept}:
            self.forget(group)  # the store died before this group's only member could leave
        return kept

    def _fold(self, reader: AckReader) -> None:
        """Takes over what a member's file says. A file that the member has shortened is ignored."""
        try:
            found = reader.progress()
        except Corrupt as error:
            self.logger.error(
                "a member's ack file is damaged: its progress is as last saved",
                error=str(error),
                group=reader.about.group,
            )
            return
        for (topic, queue_id), progress in found.items():
            key = (reader.about.group, topic, queue_id)
            if reader.about.model == _RESET:
                self._resets[key] = reader.number
            elif reader.number < self._resets.get(key, 0):
                continue
            self.known[key] = progress
            self._only_in.pop(key, None)
            if progress.beyond:
                self._only_in[key] = reader.number

    def begin(self, group: str, queue: Queue, offset: int) -> None:
        """Sets where a group starts in a queue, if nothing is known of the group there."""
        if (group, *queue) not in self.known:
            self.known[group, *queue] = Progress(offset)

    def knows(self, group: str, queue: Queue) -> bool:
        """Whether the group has begun in the queue."""
        return (group, *queue) in self.known

    def has_topic(self, group: str, topic: str) -> bool:
        """Whether the group has begun in any queue of the topic."""
        return any(g == group and t == topic for g, t, _ in self.known)

    def assign(self, about: About, ends: Sequence[int], old: int | None) -> int:
        """Makes a new ack file for a member and returns its number. Nobody writes any more to the
        `old` one. `ends` are the ends of `about.queues`. Raises OSError (ENOSPC).
        """
        if old is not None:
            self.retire(old)
        keys = [(about.group, *queue) for queue in about.queues]
        start = [self._bounded(key, end) for key, end in zip(keys, ends, strict=True)]
        number = self._new_file(about, start)
        self.living[number] = AckReader(self.folder, number)
        for key in keys:
            self._only_in.pop(key, None)
        return number

    def _bounded(self, key: Key, end: int) -> Progress:
        """A group's progress in a queue, at most the queue's `end`.

        Progress behind the end means that a power cut has taken messages away, or that a member has
        written nonsense. The group must not skip the messages that come next.
        """
        known = self.known.get(key, Progress(0))
        if known.offset > end:
            self.logger.warning(
                "a group was behind the end of a queue: it goes on at the end",
                group=key[0], topic=key[1], queue=key[2], offset=known.offset, end=end,
            )  # fmt: skip
        beyond = frozenset(at for at in known.beyond if at < end)
        self.known[key] = Progress(min(known.offset, end), beyond)
        return self.known[key]

    def _new_file(self, about: About, start: list[Progress]) -> int:
        self._number = max(self._number + 1, time.time_ns())
        ack_file.create(self.folder, self._number, about, start)
        return self._number

    def retire(self, number: int) -> None:
        """Folds in a file that nobody writes to any more: its member is gone, or has another."""
        reader = self.living.pop(number, None)
        if reader is not None:
            self._fold(reader)
            self.gone.append(number)

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Puts a group elsewhere in queues that no member has. The change is in an ack file when
        this returns, as an acknowledgement is: the newest file that names these queues counts.
        Raises OSError.
        """
        self._reset(group, topic, offsets)
        self.save()

    def _reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        about = About(group, 0, _RESET, "", {}, [(topic, queue_id) for queue_id in offsets])
        number = self._new_file(about, [Progress(offset) for offset in offsets.values()])
        for queue_id, offset in offsets.items():
            key = (group, topic, queue_id)
            self.known[key] = Progress(offset)
            self._only_in.pop(key, None)
            self._resets[key] = number
        self.gone.append(number)

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted. All groups begin at queue offset 0 in a new topic of that name, even
        if members that have its old queues still acknowledge messages. Raises OSError.
        """
        queues: dict[str, dict[int, int]] = {}
        for group, name, queue_id in self.known:
            if name == topic:
                queues.setdefault(group, {})[queue_id] = 0
        for group, offsets in queues.items():
            self._reset(group, topic, offsets)
        if queues:
            self.save()

    def forget(self, group: str) -> None:
        """Forgets a group's progress in all topics."""
        for key in [k for k in self.known if k[0] == group]:
            del self.known[key]
            self._only_in.pop(key, None)
            self._resets.pop(key, None)

    def now(self, group: str) -> dict[Queue, int]:
        """Where the group is in each queue that it has begun to read."""
        found = {(t, q): p.offset for (g, t, q), p in self.known.items() if g == group}
        for reader in self.living.values():
            if reader.about.group == group:
                found.update(self._offsets_of(reader))
        return found

    def _offsets_of(self, reader: AckReader) -> dict[Queue, int]:
        """Where a living member is, without queues whose reset the member has not heard of."""
        group, queues = reader.about.group, reader.about.queues
        try:
            offsets = reader.offsets()
        except Corrupt:
            offsets = [self.known[group, *queue].offset for queue in queues]
        return {
            queue: offset
            for queue, offset in zip(queues, offsets, strict=True)
            if self._resets.get((group, *queue), 0) < reader.number
        }

    def save(self) -> None:
        """Replaces the JSON files whose content has changed, then removes the ack files that are no
        longer needed. Raises OSError.
        """
        fresh: list[dict[tuple[str, str], dict[int, int]]] = [{}, {}]
        offsets = {key: progress.offset for key, progress in self.known.items()}
        for reader in self.living.values():
            for queue, offset in self._offsets_of(reader).items():
                offsets[reader.about.group, *queue] = offset
        for (group, topic, queue_id), offset in offsets.items():
            if group.startswith(_NAMELESS):
                continue
            table = fresh[group.startswith(BROADCAST)]
            table.setdefault((topic, group), {})[queue_id] = offset
        now_ms = int(time.time() * 1000)
        for path, file, table in zip(self.paths, self.files, fresh, strict=True):
            if dict(file) != table:
                file.clear()
                file.update(table)
                file.data_version = file.data_version.next(now_ms)
                offsets_json.save(path, file)
        oldest = min(self.living, default=self._number)
        kept = {*self._only_in.values(), *(n for n in self._resets.values() if n > oldest)}
        for number in [n for n in self.gone if n not in kept]:
            ack_file.remove(self.folder, number)
            self.gone.remove(number)
