"""The progress of consumer groups: the registry's copy in memory, and the files that keep it.

A group's progress is kept in three places, each for another failure:

- The ack file of a living member. The member writes it with each acknowledgement
  (`store/groups/ack_file.py`), and it survives the death of every process.
- `config/consumerOffset.json`, RocketMQ's file. It is replaced durably every few seconds and at a
  stop. The progress of broadcasting members, for which RocketMQ has no file, has one of its own.
- `GroupProgress.known`, which also holds the queues that no member reads now.

When a member has left, its ack file is *folded* into `known`: the offsets of the file replace the
known ones. The ack file is removed once the JSON file holds its offsets. JSON cannot express
messages that were acknowledged out of order. Then the ack file stays until the ack file of another
member holds them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...store.config import offsets as offsets_json
from ...store.disk.files import Folder
from ...store.errors import Corrupt
from ...store.groups import ack_file
from ...store.groups.ack_file import About, AckReader, Progress, Queue
from ...store.topics.topic_table import TopicTable
from ..actor import World
from .popped_queues import PoppedQueues
from .transaction_offsets import transaction_offsets

Key = tuple[str, str, int]  # group, topic, queue id
BROADCAST = "%BROADCAST%"
_NAMELESS = f"{BROADCAST}#"
_RESET = "reset"
_PAGE = 500


def broadcast_key(group: str, instance: str, session: int) -> str:
    """The name of a group of one, under which a broadcasting member's own progress is kept.

    Without an instance's name the key holds the session's number, so that no other member ever has
    the same key: an instance's name cannot contain a `#`. Only the ack file keeps this progress,
    while the member lives.
    """
    return f"{BROADCAST}{instance}%{group}" if instance else f"{_NAMELESS}{session}%{group}"


def _writer(reader: AckReader) -> tuple[int, str]:
    """Whose ack file it is: that of a session, for one of the groups that it keeps."""
    return reader.about.session, reader.about.group


def ends_of(table: TopicTable, queues: Iterable[Queue], ends: list[int]) -> Iterator[int]:
    """For each queue its end, as it is in the table's column `ends`; -1 for a queue that does not
    exist.
    """
    slots: dict[str, tuple[int, ...]] = {}
    for topic, queue_id in queues:
        if topic not in slots:
            found = table.find(topic)
            slots[topic] = () if found is None else tuple(found.slots)
        yield ends[slots[topic][queue_id]] if queue_id < len(slots[topic]) else -1


class GroupProgress:
    """Progress of all groups. Raises Corrupt when neither an offset file nor its backup can be
    read.
    """

    def __init__(self, world: World, logger: Any) -> None:
        self.logger = logger
        self.table = world.table
        self._control = world.control
        self.folder: Folder = world.folders.ours.folder(ack_file.FOLDER, create=True)
        paths = (
            (world.folders.config.path, offsets_json.OFFSETS_FILE),
            (
                world.folders.ours.path,
                offsets_json.BROADCAST_FILE,
            ),
        )
        self.paths = [os.path.join(*parts) for parts in paths]
        self.files = [self._load(path) for path in self.paths]
        self.known: dict[Key, Progress] = {}
        for file in self.files:
            for (topic, group), queues in file.items():
                for queue_id, offset in queues.items():
                    self.known[group, topic, queue_id] = Progress(offset)
        #: What members pop: their offsets count where they are larger.
        self.popped = PoppedQueues(world.folders.ours, logger)
        self.living: dict[int, AckReader] = {}
        self.gone: list[int] = []
        # The ack file without a member that alone holds acknowledgements out of order.
        self._only_in: dict[Key, int] = {}
        self._resets: dict[Key, int] = {}  # the ack file with the last reset
        self._number = time.time_ns()
        #: The offsets of each living ack file, by its number, at the last save.
        self.last_saved: dict[int, dict[Queue, int]] = {}

    def _load(self, path: str) -> offsets_json.GroupOffsets:
        offsets, problems = offsets_json.load(path)
        for problem in problems:
            self.logger.error("consumer offsets", problem=problem)
        return offsets

    def take_over(self, sessions: Iterable[int], beat: Callable[[], None]) -> list[AckReader]:
        """Reads the ack files that a killed registry or a crashed store left, and folds all in.

        Returns the newest ack file of each of `sessions` and group, which is still written to.
        """
        saved = dict(self.known)
        alive = set(sessions)
        readers = []
        for number in ack_file.numbers(self.folder):
            self._number = max(self._number, number)
            beat()
            try:
                readers.append(AckReader(self.folder, number))
            except (Corrupt, OSError) as error:
                # The offsets in the JSON file count. A power cut leaves files that are not whole.
                self.logger.warning("an ack file cannot be used: set aside", error=str(error))
                ack_file.set_aside(self.folder, number)
        newest = {_writer(r): r.number for r in readers if r.about.session in alive}
        kept = []
        for reader in readers:
            beat()
            self._fold(reader)
            if newest.get(_writer(reader)) == reader.number:
                self.living[reader.number] = reader
                kept.append(reader)
            else:
                self.gone.append(reader.number)
        for key, progress in saved.items():
            # After a power cut that took pages of ack files, the JSON file may be the newer one.
            if progress.offset > self.known[key].offset:
                self.known[key] = progress
        nameless = {group for group, _, _ in self.known if group.startswith(_NAMELESS)}
        for group in nameless - {reader.about.group for reader in kept}:
            self.forget(group)  # its only member ended with the store
        self._bound_all()
        return kept

    def _bound_all(self) -> None:
        """Bounds the progress of all groups now. Messages that are sent before a group has its next
        member would else take the places of those that a power cut has removed.
        """
        keys = list(self.known)
        queues = ((topic, queue_id) for _, topic, queue_id in keys)
        ends = ends_of(self.table, queues, self.table.queue_column("max_offset"))
        for key, end in zip(keys, ends, strict=True):
            if end >= 0:
                self._bounded(key, end)
        popped = self.popped.keys()
        queues = ((topic, queue_id) for _, topic, queue_id in popped)
        found = ends_of(self.table, queues, self.table.queue_column("max_offset"))
        for key, end in zip(popped, found, strict=True):
            known = self.known.setdefault(key, Progress(self.popped.done(key)))
            self.popped.take_over(key, known.offset, end)

    def _fold(self, reader: AckReader) -> None:
        """Puts the progress of an ack file into `known`, except in queues that were reset later. A
        file that the member has shortened is ignored.
        """
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
        """Sets the offset at which a group starts in a queue, unless it has begun there."""
        if (group, *queue) not in self.known:
            self.known[group, *queue] = Progress(offset)

    def knows(self, group: str, queue: Queue) -> bool:
        """Whether the group has begun in the queue."""
        return (group, *queue) in self.known

    def has_topic(self, group: str, topic: str) -> bool:
        """Whether the group has begun in any queue of the topic."""
        return any(g == group and t == topic for g, t, _ in self.known)

    def readers_of(self, topic: str) -> list[str]:
        """The groups that have begun in any queue of the topic, sorted, without single members that
        have their own progress.
        """
        found = {g for g, t, _ in self.known if t == topic and not g.startswith(BROADCAST)}
        return sorted(found)

    def assign(self, about: About, ends: Sequence[int], old: int | None) -> int:
        """Makes a new ack file for a member and returns its number.

        The `old` one is folded in first; the member has stopped writing to it. `ends` are the
        `max_offset` of each of `about.queues`. Raises OSError (ENOSPC): then the old one still
        counts.
        """
        if old is not None and old in self.living:
            self._fold(self.living[old])
        keys = [(about.group, *queue) for queue in about.queues]
        start = [self._bounded(key, end) for key, end in zip(keys, ends, strict=True)]
        number = self._new_file(about, start)
        self.living[number] = AckReader(self.folder, number)
        if old is not None and self.living.pop(old, None) is not None:
            self.gone.append(old)
        for key in keys:
            self._only_in.pop(key, None)
        return number

    def _bounded(self, key: Key, end: int) -> Progress:
        """A group's progress in a queue, but no more than the queue's `end`.

        Progress above the end means that a power cut has removed messages, or that a member has
        written wrong offsets. The group must not skip the next messages of the queue.
        """
        known = self.known.get(key, Progress(0))
        if self.popped.done(key) > known.offset:
            known = Progress(self.popped.done(key))
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
        """Folds in an ack file whose member has left or has got another ack file."""
        reader = self.living.pop(number, None)
        if reader is not None:
            self._fold(reader)
            self.gone.append(number)

    @property
    def newest(self) -> int:
        """The number of the ack file that was made last."""
        return self._number

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Sets the group's offsets, by queue id, in queues of a topic that no member has.

        When this returns the change is in an ack file of its own. It is newer than all others that
        name these queues, so it counts. Raises OSError.
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
            self.popped.reset(key, offset)
        self.gone.append(number)

    def forget_topic(self, topic: str) -> None:
        """Resets all groups to queue offset 0 in a deleted topic, for a new topic of that name.
        Later acknowledgements of members that have old queues do not count. Raises OSError.
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
        """Forgets a group's progress in all topics. Raises OSError."""
        self.popped.forget(group)
        for key in [k for k in self.known if k[0] == group]:
            del self.known[key]
            self._only_in.pop(key, None)
            self._resets.pop(key, None)

    def page(self, after: str) -> tuple[dict[str, dict[str, dict[int, int]]], bool]:
        """The offsets of the first 500 groups whose names come after `after`, by topic and queue
        id, and whether there are more. Single members' own progress is left out.
        """
        living = {reader.about.group for reader in self.living.values()}
        groups = living.union(group for group, _, _ in self.known)
        names = sorted(one for one in groups if one > after and not one.startswith(BROADCAST))
        page: dict[str, dict[str, dict[int, int]]] = {name: {} for name in names[:_PAGE]}
        for (group, topic, queue_id), progress in self.known.items():
            if group in page:
                page[group].setdefault(topic, {})[queue_id] = progress.offset
        for reader in self.living.values():
            if reader.about.group in page:
                for (topic, queue_id), offset in self._offsets_of(reader).items():
                    page[reader.about.group].setdefault(topic, {})[queue_id] = offset
        return page, len(names) > _PAGE

    def now(self, group: str) -> dict[Queue, int]:
        """The group's offset in each queue that it has begun to read."""
        found = {(t, q): p.offset for (g, t, q), p in self.known.items() if g == group}
        for reader in self.living.values():
            if reader.about.group == group:
                found.update(self._offsets_of(reader))
        for (name, topic, queue_id), done in self.popped.all_done():
            if name == group:
                found[topic, queue_id] = max(done, found.get((topic, queue_id), 0))
        return found

    def in_topic(self, group: str, topic: str, queues: int) -> dict[int, int]:
        """The group's offsets in the first `queues` queues of a topic that it has begun to read, by
        queue id.
        """
        found = self.committed(group, topic, queues)
        return {
            queue_id: max(offset, self.popped.done((group, topic, queue_id)))
            for queue_id, offset in found.items()
        }

    def committed(self, group: str, topic: str, queues: int) -> dict[int, int]:
        """As `in_topic`, without what was popped since the last save."""
        found = {
            queue_id: known.offset
            for queue_id in range(queues)
            if (known := self.known.get((group, topic, queue_id))) is not None
        }
        for reader in self.living.values():
            if reader.about.group == group:
                read = self._offsets_of(reader).items()
                found.update({queue_id: at for (name, queue_id), at in read if name == topic})
        return found

    def _offsets_of(self, reader: AckReader) -> dict[Queue, int]:
        """A living member's offsets by queue, without queues that were reset after its ack file was
        made.
        """
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
        self.last_saved = {}
        for reader in self.living.values():
            self.last_saved[reader.number] = found = self._offsets_of(reader)
            for queue, offset in found.items():
                offsets[reader.about.group, *queue] = offset
        for key, done in (*transaction_offsets(self._control), *self.popped.all_done()):
            offsets[key] = max(done, offsets.get(key, 0))
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
