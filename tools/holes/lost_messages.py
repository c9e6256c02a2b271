"""Finds which messages were in the gaps of a damaged log: their queues and queue offsets.

Two sources say so. The good records know their queue offsets: what lacks between two records of a
queue was in a gap between them. And the queues' files, if they are left, lead into the gaps. They
are read as they lie there, because they may be damaged too; an entry counts only if it fits the
records around it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ...store.consumequeue.queue import BLANK_SIZE, ENTRY, ENTRY_SIZE, QueueFiles
from ...store.disk import files as disk
from ...store.disk.files import Folder, is_folder
from ...store.disk.paths import CONSUME_QUEUE, file_bases, file_name
from ...store.record.fields import head_of, queue_place_of
from ...store.record.format import MIN_RECORD_BYTES, decode_record
from ...store.record.properties import MULTI_QUEUE_OFFSET, light_queues

if TYPE_CHECKING:
    from ...store.commitlog.log import CommitLog
    from .log_damage import Gap, LogDamage

_LIGHT: Final = MULTI_QUEUE_OFFSET.encode()
_STEP: Final = 50_000 * ENTRY_SIZE
Queue = tuple[bytes, int]


@dataclass(frozen=True, slots=True, order=True)
class Lost:
    """A message that was in gap number `gap`, or in one after it up to number `last`. `order` is
    its log offset as far as that is known: the messages of a gap are sorted by it. A message that
    is not `sure` may never have existed: it would be the first of its queue, and no entry leads to
    it.
    """

    gap: int
    order: int
    topic: bytes
    queue_id: int
    queue_offset: int
    last: int
    sure: bool = field(default=True, compare=False)


class QueuedRecord(NamedTuple):
    """A good record with a queue entry: its log offset and size, its place in its queue, and how
    many gaps lie before it.
    """

    offset: int
    size: int
    queue: Queue
    queue_offset: int
    gaps: int


@dataclass(slots=True)
class QueueEntries:
    """What the files of a queue say. `places` are log offsets in the gaps, by queue offset. `files`
    are those that can be read: the queue offsets of the first entry and behind the last.
    """

    places: dict[int, int] = field(default_factory=dict)
    files: list[tuple[int, int]] = field(default_factory=list)

    def end(self, following: int, most: int) -> int:
        """The queue offset behind the last of up to `most` messages from `following` on that were
        in gaps. Where a file cannot be read, the next one goes on.
        """
        end, limit = following, following + most
        while True:
            while end in self.places and end < limit:
                end += 1
            if any(first <= end < behind for first, behind in self.files):
                return end
            later = [first for first, _ in self.files if end < first < limit]
            if not later or min(later) not in self.places:
                return end
            end = min(later)


class _Queue:
    """What is known of one queue while the log is walked."""

    def __init__(self, next_offset: int) -> None:
        self.next = next_offset
        self.gap = 0  # the first gap behind its last record
        self.begun = False  # whether a record of it was seen


def lost_messages(
    log: CommitLog, damage: LogDamage, entries: dict[Queue, QueueEntries]
) -> list[Lost]:
    """The messages that were in the gaps, ascending. `entries` are those of `entries_in`. Raises
    OSError.
    """
    found: list[Lost] = []
    queues: dict[Queue, _Queue] = {}
    from_zero = bool(damage.bases) and damage.bases[0] == 0
    for _, _, queue, queue_offset, gaps in queued_records(log, damage, light=True):
        known = queues.get(queue)
        if known is None:
            first = 0 if from_zero else min(_places(entries, queue), default=queue_offset)
            known = queues[queue] = _Queue(min(first, queue_offset))
        if gaps > known.gap and queue_offset != known.next:
            # A queue that was deleted and made again begins anew.
            first = known.next if queue_offset > known.next else 0
            span = range(first, queue_offset)
            places, sure = _places(entries, queue), known.begun
            found += _placed(damage, queue, span, (known.gap, gaps), places, sure=sure)
        known.next, known.gap, known.begun = queue_offset + 1, gaps, True
    for queue, said in entries.items():
        if not said.places:
            continue
        known = queues.get(queue) or _Queue(min(said.places))
        room = sum(gap.end - gap.start for gap in damage.gaps[known.gap :])
        span = range(known.next, said.end(known.next, room // MIN_RECORD_BYTES))
        within = (known.gap, len(damage.gaps))
        found += _placed(damage, queue, span, within, said.places)
    return sorted(found)


def _places(entries: dict[Queue, QueueEntries], queue: Queue) -> dict[int, int]:
    said = entries.get(queue)
    return said.places if said else {}


def queued_records(
    log: CommitLog, damage: LogDamage, *, light: bool = False
) -> Iterator[QueuedRecord]:
    """The good records with a queue entry, ascending. With `light` a record comes once more for
    each light queue in which it lies. Raises OSError, Corrupt.
    """
    gaps = 0
    for start, end in damage.good:
        while gaps < len(damage.gaps) and damage.gaps[gaps].start < start:
            gaps += 1
        base = log.base_of(start)
        with log.folders.commit_log.file(file_name(base)) as fd:
            size = min(disk.size_of(fd), log.file_size)
            view = memoryview(disk.map_file(fd, 0, size, writable=False))
        at = start - base
        while at < end - base and size - at >= MIN_RECORD_BYTES:
            if not head_of(view, at).is_record:  # the end-of-file record
                break
            place = queue_place_of(view, at)
            if place.queued:
                queue = (place.topic, place.queue_id)
                yield QueuedRecord(base + at, place.size, queue, place.queue_offset, gaps)
                if light and _LIGHT in bytes(view[at : at + place.size]):
                    record = decode_record(view, at, at + place.size, check_crc=False)
                    for name, number in light_queues(record.properties).items():
                        queue = (name.encode(), 0)
                        yield QueuedRecord(base + at, place.size, queue, number, gaps)
            at += place.size


def _placed(
    damage: LogDamage,
    queue: Queue,
    offsets: range,
    within: tuple[int, int],
    places: dict[int, int],
    *,
    sure: bool = True,
) -> Iterator[Lost]:
    """The messages of a queue with these queue offsets, which were in gaps number [first, end)
    `within`. A queue entry says in which; without one it is the gap of the message before, and the
    message is as `sure` as the caller says.
    """
    gap, end = within
    order = damage.gaps[gap].start if gap < end else 0
    for queue_offset in offsets:
        place = places.get(queue_offset, -1)
        if place >= order:
            number = _gap_of(damage.gaps, place, gap, end)
            if number >= 0:
                gap, order = number, place
        if gap < end:
            yield Lost(gap, order, *queue, queue_offset, end - 1, sure or place >= 0)


def _gap_of(gaps: tuple[Gap, ...], place: int, first: int, end: int) -> int:
    """Which of the gaps [first, end) holds a log offset; -1 if none does."""
    for number in range(first, end):
        if gaps[number].start <= place < gaps[number].end:
            return number
    return -1


def entries_in(path: str, damage: LogDamage) -> dict[Queue, QueueEntries]:
    """The queue entries that lead into the gaps, by queue. Queue files that cannot be read are left
    out: the messages' neighbours tell the rest.
    """
    found: dict[Queue, QueueEntries] = defaultdict(QueueEntries)
    if not damage.gaps or not is_folder(f"{path}/{CONSUME_QUEUE}"):
        return found
    low, high = damage.gaps[0].start, damage.gaps[-1].end
    with Folder.open(f"{path}/{CONSUME_QUEUE}") as root:
        for topic, queue_id, folder in QueueFiles(root, ENTRY_SIZE).queues():
            for base in file_bases(folder):
                if base % ENTRY_SIZE or not folder.about(file_name(base)).is_file:
                    continue
                said = found[topic.encode(), queue_id]
                behind = base + folder.size(file_name(base))
                said.files.append((base // ENTRY_SIZE, behind // ENTRY_SIZE))
                for number, place in entries_between(folder, base, low, high):
                    if _gap_of(damage.gaps, place, 0, len(damage.gaps)) >= 0:
                        said.places[number] = place
    return found


def entries_between(folder: Folder, base: int, low: int, high: int) -> Iterator[tuple[int, int]]:
    """(queue offset, log offset) of the entries in a queue file that lead into [low, high)."""
    with folder.file(file_name(base)) as fd:
        size = disk.size_of(fd) - disk.size_of(fd) % ENTRY_SIZE
        for at in range(0, size, _STEP):
            data = disk.read_at(fd, min(_STEP, size - at), at)
            for number, (place, length, _) in enumerate(ENTRY.iter_unpack(data)):
                if low <= place < high and 0 < length < BLANK_SIZE:
                    yield (base + at) // ENTRY_SIZE + number, place
