"""Finds records that are whole but name a wrong place in their queue.

No checksum guards the head of a record, unless it has `__CRC32#`. A flipped bit in its queue offset
would make a rebuild put it millions of entries ahead. The other records of the queue tell: queue
offsets ascend one by one, but for messages that are lost, and for a queue that was deleted and made
again, which begins at 0.

So the records of a queue form runs, and between two runs is a contradiction: more messages lack
than the gaps and holes between them have room for. Those runs of a few records are misplaced
without which the others agree, so that most records stay. The old queue entries are witnesses: a
record whose entry has another number is misplaced, one whose entry is where it says is rather
right. Two long runs that contradict each other are nobody's flipped bit, and are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ...store.consumequeue.queue import ENTRY_SIZE, QueueFiles
from ...store.disk import files as disk
from ...store.disk.files import Folder, is_folder
from ...store.disk.paths import CONSUME_QUEUE, file_bases, file_name
from ...store.record.fields import HEAD_BYTES, store_time_of
from ...store.record.format import MIN_RECORD_BYTES
from .log_damage import Gap, LogDamage
from .lost_messages import Queue, QueuedRecord, entries_between, queued_records

if TYPE_CHECKING:
    from ...store.commitlog.holes import Holes
    from ...store.commitlog.log import CommitLog

_WHY: Final = "a record that names another queue offset than its neighbours in the queue"
#: A run of more records is never misplaced.
_FEW: Final = 3
#: A queue of more runs is left alone: that are not some flipped bits.
_MOST_RUNS: Final = 1000
_RECORD, _WITNESS, _BEGIN = 4, 2, 1  # what a run's records, and what speaks for them, weigh


def with_misplaced(path: str, log: CommitLog, damage: LogDamage, holes: Holes) -> LogDamage:
    """The damage, with each misplaced record as a gap. Raises OSError."""
    return _split(log, damage, misplaced_records(path, log, damage, holes))


def misplaced_records(
    path: str, log: CommitLog, damage: LogDamage, holes: Holes
) -> list[QueuedRecord]:
    """The misplaced records of the store at `path`, ascending. Raises OSError."""
    room = _Room(damage, holes)
    doubtful = {
        queue: runs
        for queue, runs in _runs(log, damage, room).items()
        if 1 < len(runs) <= _MOST_RUNS or (runs[0].is_short and not room.begins(runs[0]))
    }
    places = _numbers_of(path, doubtful)
    found = [
        record
        for queue, runs in doubtful.items()
        for run in _misplaced(runs, room, places[queue])
        for record in run.records
    ]
    return sorted(found)


class _Run(msgspec.Struct):
    """Records of a queue that follow each other. `records` are at most the first `_FEW` and one;
    `count` of them there are. `last` is the queue offset of the last one, `end` the log offset
    behind it.
    """

    records: list[QueuedRecord]
    count: int
    last: int
    end: int

    @property
    def is_short(self) -> bool:
        return self.count <= _FEW

    @property
    def first(self) -> int:
        return self.records[0].queue_offset

    @property
    def start(self) -> int:
        return self.records[0].offset

    def add(self, record: QueuedRecord) -> None:
        if self.count <= _FEW:
            self.records.append(record)
        self.count += 1
        self.last, self.end = record.queue_offset, record.offset + record.size


class _Room:
    """How many messages the log may have lost, where."""

    def __init__(self, damage: LogDamage, holes: Holes) -> None:
        self._ranges = [(part.start, part.end) for part in (*damage.gaps, *holes)]
        self._from_zero = bool(damage.bases) and damage.bases[0] == 0

    def within(self, start: int, end: int) -> int:
        """The most messages that were in the gaps and holes of the log offsets [start, end)."""
        lost = sum(min(end, e) - max(start, s) for s, e in self._ranges if s < end and e > start)
        return int(lost) // MIN_RECORD_BYTES

    def follows(self, run: _Run, start: int, queue_offset: int, dropped: int = 0) -> bool:
        """Whether a record at log offset `start` may be the next one of the queue, if `dropped`
        records between are misplaced.
        """
        if queue_offset in (run.last + 1, 0):
            return True
        lost = self.within(run.end, start) + dropped
        return 0 <= queue_offset - run.last - 1 <= lost or queue_offset <= lost

    def begins(self, run: _Run, dropped: int = 0) -> bool:
        """Whether a run may be the first one of its queue."""
        return not self._from_zero or run.first <= self.within(0, run.start) + dropped


def _runs(log: CommitLog, damage: LogDamage, room: _Room) -> dict[Queue, list[_Run]]:
    """The runs of each queue."""
    found: dict[Queue, list[_Run]] = defaultdict(list)
    for record in queued_records(log, damage):
        runs = found[record.queue]
        if runs and room.follows(runs[-1], record.offset, record.queue_offset):
            runs[-1].add(record)
        else:
            run = _Run([], 0, -1, record.offset)
            run.add(record)
            runs.append(run)
    return found


def _numbers_of(path: str, runs: dict[Queue, list[_Run]]) -> dict[Queue, dict[int, int]]:
    """The queue offsets at which the old queue entries of the records in short runs are: by queue,
    then by log offset.
    """
    found: dict[Queue, dict[int, int]] = defaultdict(dict)
    if not runs or not is_folder(f"{path}/{CONSUME_QUEUE}"):
        return found
    with Folder.open(f"{path}/{CONSUME_QUEUE}") as root:
        for topic, queue_id, folder in QueueFiles(root, ENTRY_SIZE).queues():
            queue = topic.encode(), queue_id
            short = [run for run in runs.get(queue, ()) if run.is_short]
            wanted = {record.offset for run in short for record in run.records}
            for base in file_bases(folder) if wanted else ():
                if base % ENTRY_SIZE or not folder.about(file_name(base)).is_file:
                    continue
                for number, place in entries_between(folder, base, min(wanted), max(wanted) + 1):
                    if place in wanted:
                        found[queue][place] = number
    return found


def _misplaced(runs: list[_Run], room: _Room, numbers: dict[int, int]) -> list[_Run]:
    """The runs without which the others agree. `best` has for each run the greatest weight of those
    that stay if it is the last one, and the run that stays before it.
    """
    best: list[tuple[int, int]] = []
    for number, run in enumerate(runs):
        said = [numbers.get(record.offset, record.queue_offset) for record in run.records]
        if run.is_short and said != [record.queue_offset for record in run.records]:
            best.append((-1, -1))
            continue
        agrees = any(record.offset in numbers for record in run.records)
        weight = _RECORD * run.count + _WITNESS * agrees
        ways, dropped, before = [], 0, number - 1
        while before >= 0:
            other = runs[before]
            fits = room.follows(other, run.start, run.first, dropped)
            if best[before][0] >= 0 and (fits or not (other.is_short or run.is_short)):
                ways.append((best[before][0] + weight, before))
            if not other.is_short:
                break
            dropped += other.count
            before -= 1
        else:
            ways.append((weight + _BEGIN * room.begins(run, dropped), -1))
        best.append(max(ways, key=lambda way: way[0], default=(-1, -1)))
    stay = set()
    long = max((n for n, run in enumerate(runs) if not run.is_short), default=0)
    at = max(range(long, len(runs)), key=lambda n: best[n][0])
    while at >= 0 and best[at][0] >= 0:
        stay.add(at)
        at = best[at][1]
    return [run for number, run in enumerate(runs) if number not in stay and run.is_short]


def _split(log: CommitLog, damage: LogDamage, records: list[QueuedRecord]) -> LogDamage:
    """The damage with these records, which lie in good ranges, as gaps."""
    bad = sorted((record.offset, record.offset + record.size) for record in records)
    good: list[tuple[int, int]] = []
    gaps = list(damage.gaps)
    for start, end in damage.good:
        at = start
        for low, high in bad:
            if start <= low < end:
                base = low - low % damage.file_size
                with log.folders.commit_log.file(file_name(base)) as fd:
                    head = disk.read_at(fd, HEAD_BYTES, low - base)
                gaps.append(Gap(base, low, high, _WHY, store_time_of(head)))
                if low > at:
                    good.append((at, low))
                at = high
        if at < end:
            good.append((at, end))
    gaps.sort(key=lambda gap: gap.start)
    return replace(damage, good=tuple(good), gaps=tuple(gaps))
