"""Reads one part of a store, as planned, into Arrow batches of the kernel's columns. Spark-free.

Files are mapped read-only in their present length. So a file that clean removes stays readable once
it is open. A file that is removed before that is data loss, which is an error, or with
failOnDataLoss=false means fewer rows. A read never faults and never returns wrong rows, because
each record must name its own log offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...store.commitlog import _scan as kernel
from ...store.commitlog.holes import Holes
from ...store.commitlog.log_reader import LogReader
from ...store.consumequeue.queue import ENTRY, ENTRY_SIZE
from ...store.consumequeue.queue_reader import QueueReader
from ...store.disk.files import Folder
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE
from ...store.errors import Corrupt, CorruptRange
from ...store.names import is_light_queue
from ...store.reading._columns import BAD_ENTRY, DAMAGED, ELSEWHERE, TAKEN_FULL, Columns
from ...store.reading.columns import LogScan, mask_of, to_batch
from ...store.record.fields import head_of
from .columns import in_light_queue
from .record_filter import Kept
from .snapshot import DataLoss, first_true

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A batch has about this many rows, and bytes of the log: as much as fits into a core's cache.
ROWS: Final = 16384
BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings that all parts of a read share. `columns` are the kernel's; `on_corrupt` is fail,
    skip or row. With `raw_bodies` bodies are as they are stored.
    """

    columns: tuple[str, ...]
    verify_crc: bool
    fail_on_data_loss: bool
    on_corrupt: str
    raw_bodies: bool


@dataclass(frozen=True, slots=True)
class LogPart:
    """The records of the file at `base` that begin in [`start`, `stop`), offsets in the log, and
    pass `kept`.
    """

    store: str
    log_size: int
    base: int
    start: int
    stop: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class Slice:
    """Queue offsets [`first`, `end`) of one queue."""

    topic: str
    queue_id: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Messages of queues, one slice after the other."""

    store: str
    log_size: int
    queue_size: int
    slices: tuple[Slice, ...]


Part = LogPart | QueuePart


@dataclass(slots=True)
class Damage:
    """Bytes of the log that are no record and were skipped, from offset `start` on."""

    start: int
    why: str


@dataclass(slots=True)
class Work:
    """The cost of a read: bytes of log and queues that were read."""

    touched: int = 0


def read(part: Part, rules: Rules, work: Work | None = None) -> Iterator[Any | Damage]:
    """Yields batches of `rules.columns`, and a Damage for bytes that were skipped. Raises Corrupt,
    with file and log offset, CorruptRange at a declared hole, DataLoss and OSError.
    """
    counted = Work() if work is None else work
    if isinstance(part, LogPart):
        return _read_log(part, rules, counted)
    return _QueueRead(part, rules, counted).batches()


def _read_log(part: LogPart, rules: Rules, work: Work) -> Iterator[Any | Damage]:
    with Folder.open(part.store) as root, root.folder(COMMIT_LOG) as folder:
        holes = Holes.read(root)
        log = LogReader(folder, part.log_size)
        try:
            memory = memoryview(log.file(part.base))
        except FileNotFoundError:
            _lose(rules, f"{log.path(part.base)} was removed after the query had been planned")
            return
    yield from _LogRead(part, rules, work, memory, log.path(part.base)).batches(holes)


class _LogRead:
    """Reads one part of a log file, which is mapped at `memory`."""

    def __init__(
        self, part: LogPart, rules: Rules, work: Work, memory: memoryview, path: str
    ) -> None:
        self._part = part
        self._rules = rules
        self._work = work
        self._memory = memory
        self._path = path

    def batches(self, holes: Holes) -> Iterator[Any | Damage]:
        part = self._part
        start = part.start
        if start > part.base:
            start = part.base + boundary(self._memory, part.base, part.start - part.base)
            self._work.touched += start - part.base
        for hole in holes.within(start, part.stop):
            yield from self._scan(start, hole.start)
            # Otherwise the part in which it begins reports it.
            if hole.start >= start or start == part.base:
                yield _passed_hole(self._path, hole.error(), self._rules)
            start = max(start, min(hole.end, part.stop))
        yield from self._scan(start, part.stop)

    def _scan(self, start: int, stop: int) -> Iterator[Any | Damage]:
        """Reads the log offsets [start, stop), in which no hole was declared."""
        if start >= stop:
            return
        part, rules = self._part, self._rules
        scan = LogScan(
            self._memory,
            part.base,
            start,
            stop,
            columns=part.kept.with_needed(rules.columns),
            check_crc=rules.verify_crc,
            skip_damage=rules.on_corrupt != "fail",
            zeros_end=False,
            max_rows=ROWS,
            max_bytes=BYTES,
            raw_bodies=rules.raw_bodies,
        )
        reported = 0
        try:
            for batch in scan:
                kept = part.kept.of(batch, rules.columns)
                if kept.num_rows:
                    yield kept
                for begin, end in scan.damage[reported:]:
                    yield _damage(self._path, begin, end)
                reported = len(scan.damage)
        except CorruptRange as error:
            raise Corrupt(
                self._path,
                error.start,
                f"no whole record up to offset {error.end}; set onCorrupt to skip or row to pass "
                "over",
            ) from error
        for begin, end in scan.damage[reported:]:
            yield _damage(self._path, begin, end)
        self._work.touched += max(0, scan.position - start)


def _passed_hole(path: str, error: CorruptRange, rules: Rules) -> Damage:
    """The damage that a declared hole is. Raises the error unless damage is to be passed over."""
    if rules.on_corrupt == "fail":
        error.add_note("set onCorrupt to skip or row to pass over it")
        raise error
    return Damage(error.start, f"{path}: {error}")


def _damage(path: str, start: int, end: int) -> Damage:
    return Damage(start, f"{path}, offset {start}: no whole record up to offset {end}")


def _lose(rules: Rules, why: str) -> None:
    if rules.fail_on_data_loss:
        raise DataLoss(
            f"{why}; set failOnDataLoss to false to go on with what is there, or keep messages for "
            "longer (file_reserved_time_h)"
        )


def boundary(memory: memoryview, base: int, at: int) -> int:
    """The position of the first record in a file that begins at position `at` or later.

    Walks from record to record from the file's beginning, because a body may hold bytes that look
    like a record. After damage it searches for the next record (magic, its own offset, body).
    """
    position = 0
    while position < at:
        position = kernel.scan(memory[:at], position, base, False)[0]  # noqa: FBT003
        if position >= at:
            break
        # This record reaches beyond `at`, or is damaged.
        size = head_of(memory, position).total_size
        behind = kernel.scan(memory[: position + size], position, base, False)[0]  # noqa: FBT003
        if behind <= position:
            behind = kernel.find_record(memory, position + 1, base, -(1 << 63))[0]
            if behind < 0:
                return max(at, position)
        position = behind
    return min(position, len(memory))


class _QueueRead:
    """Reads the slices of a part, once."""

    def __init__(self, part: QueuePart, rules: Rules, work: Work) -> None:
        self._part = part
        self._rules = rules
        self._work = work
        self._mask = mask_of(rules.columns)
        self._filled = Columns(self._mask, rules.raw_bodies)
        self._light: list[int] = []  # of the rows of a light queue, the queue offsets
        self._memory: memoryview | None = None
        self._base = 0
        self._log: LogReader
        self._holes = Holes()

    def batches(self) -> Iterator[Any | Damage]:
        with (
            Folder.open(self._part.store) as root,
            root.folder(CONSUME_QUEUE) as queues,
            root.folder(COMMIT_LOG) as log,
        ):
            self._log = LogReader(log, self._part.log_size)
            self._holes = Holes.read(root)
            for piece in self._part.slices:
                light = is_light_queue(piece.topic)
                if light:
                    yield from self._flush()
                yield from self._slice(queues, piece)
                if light:
                    yield from self._flush(piece)
            yield from self._flush()

    def _flush(self, piece: Slice | None = None) -> Iterator[Any]:
        """The rows so far, which are all of `piece` if that is a light queue's."""
        if self._filled.rows:
            self._work.touched += self._filled.bytes
            batch = to_batch(self._filled, self._rules.columns)
            if piece is not None and is_light_queue(piece.topic):
                batch = in_light_queue(batch, piece.topic, piece.queue_id, self._light)
            yield batch
            self._filled = Columns(self._mask, self._rules.raw_bodies)
        self._light.clear()

    def _slice(self, queues: Folder, piece: Slice) -> Iterator[Any | Damage]:
        try:
            with queues.folder(piece.topic) as parent, parent.folder(str(piece.queue_id)) as folder:
                reader = QueueReader(folder, self._part.queue_size)
                next_offset = piece.first
                while next_offset < piece.end:
                    try:
                        view = reader.view(next_offset, piece.end - next_offset)
                    except FileNotFoundError:
                        per_file = self._part.queue_size // ENTRY_SIZE
                        behind = min(piece.end, next_offset - next_offset % per_file + per_file)
                        self._lost(piece, next_offset, behind)
                        next_offset = behind
                        continue
                    yield from self._apart_from_holes(view, piece, next_offset)
                    next_offset += len(view) // ENTRY_SIZE
        except FileNotFoundError:
            self._lost(piece, piece.first, piece.end)

    def _apart_from_holes(
        self, view: memoryview, piece: Slice, first: int
    ) -> Iterator[Any | Damage]:
        """As `_entries`, with a Damage for the entries that lead into a declared hole."""
        while len(view):
            count, hole = self._holes.before(view) if self._holes else (len(view), None)
            if hole is None:
                yield from self._entries(view[: count * ENTRY_SIZE], piece, first)
            else:
                yield from self._flush(piece)
                count = Holes.passing(hole, view)
                lost = hole.error(piece.topic, piece.queue_id, first=first, end=first + count)
                yield _passed_hole(self._log.path(hole.start), lost, self._rules)
            view, first = view[count * ENTRY_SIZE :], first + count

    def _entries(self, view: memoryview, piece: Slice, first: int) -> Iterator[Any | Damage]:
        """Adds the messages that the entries in `view` lead to; the first entry has queue offset
        `first`.
        """
        done, count = 0, len(view) // ENTRY_SIZE
        while done < count:
            base = self._base if self._memory is not None else 0
            _, examined, why = self._filled.take(
                self._memory,
                base,
                view[done * ENTRY_SIZE :],
                first + done,
                ROWS,
                None,
                BYTES,
                self._rules.verify_crc,
            )
            if is_light_queue(piece.topic):
                self._light.extend(range(first + done, first + done + examined))
            done += examined
            self._work.touched += examined * ENTRY_SIZE
            if why == TAKEN_FULL:
                yield from self._flush(piece)
            elif why == ELSEWHERE:
                done = self._open(view, done, piece, first)
            elif why in (BAD_ENTRY, DAMAGED):
                yield from self._flush(piece)
                yield self._passed(view, done, piece, first)
                done += 1

    def _open(self, view: memoryview, done: int, piece: Slice, first: int) -> int:
        """Opens the log file that entry `done` leads to. Returns the number of the entry to
        continue with.
        """
        at = ENTRY.unpack_from(view, done * ENTRY_SIZE)[0]
        base = at - at % self._part.log_size
        try:
            self._memory = memoryview(self._log.file(base))
        except FileNotFoundError:
            behind = base + self._part.log_size

            def is_behind(number: int) -> bool:
                return bool(ENTRY.unpack_from(view, number * ENTRY_SIZE)[0] >= behind)

            passed = first_true(is_behind, done + 1, len(view) // ENTRY_SIZE)
            self._lost(piece, first + done, first + passed)
            return passed
        self._base = base
        return done

    def _passed(self, view: memoryview, done: int, piece: Slice, first: int) -> Damage:
        at, size, _ = ENTRY.unpack_from(view, done * ENTRY_SIZE)
        path = self._log.path(at - at % self._part.log_size)
        why = (
            f"the {size} bytes here, to which queue offset {first + done} of queue "
            f"{piece.queue_id} of {piece.topic} leads, are no whole record"
        )
        if self._rules.on_corrupt == "fail":
            raise Corrupt(path, at, f"{why}; set onCorrupt to skip or row to pass over")
        return Damage(at, f"{path}, offset {at}: {why}")

    def _lost(self, piece: Slice, first: int, end: int) -> None:
        _lose(
            self._rules,
            f"{self._part.store}: queue offsets {first} to {end} of queue {piece.queue_id} of "
            f"{piece.topic} were removed after the query had been planned",
        )
