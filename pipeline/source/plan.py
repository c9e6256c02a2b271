"""Plans which parts of a store a query reads, from a snapshot. Spark-free.

If topics or queue offsets are selected, their queues are read; otherwise the log, file by file.
Parts that a query's filters exclude are left out where that is cheap. Spark applies the filters
again, so a part may have too many rows, but never too few.

Times are searched binarily. That requires that the store times of a queue, and of the log's files,
ascend, as they do in a store that was written by SiloMQ.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from ...store.consumequeue.queue import BLANK_SIZE, read_entry
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE, file_name
from ...store.record.fields import HEAD_BYTES, head_of, store_time_of
from .options import LATEST
from .part_reader import LogPart, Part, QueuePart, Slice
from .record_filter import Kept
from .snapshot import NotAStore, first_true

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .options import Options
    from .snapshot import Snapshot

LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
#: Messages of queues that one task reads at most: about 512 MiB of messages of 512 bytes.
PARTITION_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Pushed:
    """The rows that a query's filters admit. None admits any value, bounds include both ends, times
    are ms.
    """

    stores: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    offsets: tuple[int, int] = (LEAST, MOST)
    places: tuple[int, int] = (LEAST, MOST)
    times: tuple[int, int] = (LEAST, MOST)

    def among(self, name: str, values: frozenset[object]) -> Pushed:
        """Narrows `stores`, `topics` or `queue_ids` to these values."""
        now: frozenset[object] | None = getattr(self, name)
        changed: dict[str, Any] = {name: values if now is None else now & values}
        return replace(self, **changed)

    def between(self, name: str, low: int, high: int) -> Pushed:
        """Narrows `offsets`, `places` or `times` to `low` to `high`, both included."""
        least, most = getattr(self, name)
        changed: dict[str, Any] = {name: (max(least, low), min(most, high))}
        return replace(self, **changed)

    def wants(self, topic: str, queue_id: int) -> bool:
        """Whether a queue may have rows."""
        return (self.topics is None or topic in self.topics) and (
            self.queue_ids is None or queue_id in self.queue_ids
        )


ANYTHING: Final = Pushed()


def plan(found: Snapshot, options: Options, pushed: Pushed = ANYTHING) -> list[tuple[Part, ...]]:
    """The parts of a store that a query reads, grouped into tasks. Raises NotAStore, and DataLoss
    as `Options.lose`.
    """
    if pushed.stores is not None and found.path not in pushed.stores:
        return []
    starting = options.starting
    by_offset = (starting is not None and (starting.named or starting.everywhere == LATEST)) or (
        options.ending.named
    )
    if by_offset and not found.queues_whole:
        raise NotAStore(
            f"{found.path}: its queues may lack messages, as it was not stopped in order, so "
            "offsets in them cannot be asked for: start and stop it, or give times"
        )
    if found.queues_whole and (
        options.selects_topics or by_offset or _queues_have_all(found, options, pushed)
    ):
        return _queue_tasks(found, queue_slices(found, options, pushed), options)
    return _log_tasks(found, options, pushed)


# -- queues


def _queues_have_all(found: Snapshot, options: Options, pushed: Pushed) -> bool:
    """Whether a filter on topics may be answered from their queues. RocketMQ begins a queue in its
    middle when it has lost what came before, and the log may then hold more messages than the
    queue.
    """
    if pushed.topics is None:
        return False
    with _Look(found) as look:
        return not any(
            look.begins_blank(topic, queue_id, least)
            for (topic, queue_id), (least, _) in found.queues.items()
            if options.wants(topic, queue_id) and pushed.wants(topic, queue_id)
        )


def queue_slices(found: Snapshot, options: Options, pushed: Pushed) -> Iterator[Slice]:
    """The selected messages of each queue, in the order of the queues."""
    since = max(pushed.times[0], LEAST if options.since_ms is None else options.since_ms)
    until = min(pushed.times[1], MOST if options.until_ms is None else options.until_ms)
    with _Look(found) as look:
        for (topic, queue_id), (least, end) in sorted(found.queues.items()):
            if not options.wants(topic, queue_id) or not pushed.wants(topic, queue_id):
                continue
            first, stop = _asked_for(found, options, topic, queue_id)
            first = max(first, least, pushed.offsets[0])
            stop = min(stop, end, min(pushed.offsets[1], MOST - 1) + 1)
            if first < stop and (since > LEAST or until < MOST):
                first, stop = _within(look.times(topic, queue_id), (since, until), first, stop)
            if first < stop and pushed.places != (LEAST, MOST):
                first, stop = _within(look.places(topic, queue_id), pushed.places, first, stop)
            if first < stop:
                yield Slice(topic, queue_id, first, stop)


def _within(
    value_of: Callable[[int], int], bounds: tuple[int, int], first: int, stop: int
) -> tuple[int, int]:
    """The part of [first, stop) whose values lie within `bounds`, both included. The values must
    ascend.
    """
    low, high = bounds
    first = first_true(lambda n: value_of(n) >= low, first, stop)
    return first, first_true(lambda n: value_of(n) > high, first, stop)


def _asked_for(found: Snapshot, options: Options, topic: str, queue_id: int) -> tuple[int, int]:
    """Where the options begin and end in a queue. Raises DataLoss for offsets that are not
    there.
    """
    least, end = found.queues[topic, queue_id]
    first = least
    if options.starting is not None:
        first = options.starting.of(topic, queue_id, least, end)
    stop = options.ending.of(topic, queue_id, least, end)
    if not least <= first <= end or not stop <= end:
        options.lose(
            f"{found.path}: queue {queue_id} of {topic} holds the offsets {least} to {end}, and "
            f"{first} to {stop} were asked for"
        )
    return first, stop


def pack(slices: Iterator[Slice] | list[Slice], rows: int) -> Iterator[tuple[Slice, ...]]:
    """Joins and cuts slices into groups of exactly `rows` messages; only the last may have
    fewer.
    """
    found: list[Slice] = []
    room = rows
    for piece in slices:
        first = piece.first
        while first < piece.end:
            end = min(piece.end, first + room)
            found.append(replace(piece, first=first, end=end))
            room -= end - first
            first = end
            if not room:
                yield tuple(found)
                found, room = [], rows
    if found:
        yield tuple(found)


def queue_parts(found: Snapshot, slices: list[Slice], partitions: int) -> list[tuple[Part, ...]]:
    """Tasks for slices: at least `partitions` of them, unless there are fewer messages."""
    total = sum(piece.end - piece.first for piece in slices)
    if not total:
        return []
    count = max(partitions, -(-total // PARTITION_ROWS))
    return [
        (QueuePart(found.path, found.log_size, found.queue_size, packed),)
        for packed in pack(slices, -(-total // count))
    ]


def _queue_tasks(
    found: Snapshot, slices: Iterator[Slice], options: Options
) -> list[tuple[Part, ...]]:
    return queue_parts(found, list(slices), options.min_partitions)


class _Look:
    """Reads single queue entries and records from a store's files."""

    def __init__(self, found: Snapshot) -> None:
        self._found = found
        self._opened = contextlib.ExitStack()
        root = self._opened.enter_context(Folder.open(found.path))
        self._log = self._opened.enter_context(root.folder(COMMIT_LOG))
        self._queues: Folder | None = None
        if found.queues:
            self._queues = self._opened.enter_context(root.folder(CONSUME_QUEUE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def places(self, topic: str, queue_id: int) -> Callable[[int], int]:
        """A function from queue offset to the log offset of its message; LEAST for a removed
        message.
        """

        def place(offset: int) -> int:
            found = self._entry(topic, queue_id, offset)
            return LEAST if found is None else found[0]

        return place

    def begins_blank(self, topic: str, queue_id: int, least: int) -> bool:
        """Whether a queue that begins at `least` has blank entries before that."""
        before = self._entry(topic, queue_id, least - 1) if least else None
        return before is not None and before[1] == BLANK_SIZE

    def _entry(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        assert self._queues is not None
        try:
            with self._queues.folder(topic) as parent, parent.folder(str(queue_id)) as folder:
                return read_entry(folder, self._found.queue_size, offset)
        except FileNotFoundError:
            return None

    def times(self, topic: str, queue_id: int) -> Callable[[int], int]:
        """A function from queue offset to the store time (ms) of its message; LEAST for a removed
        message.
        """
        place = self.places(topic, queue_id)

        def time(offset: int) -> int:
            at = place(offset)
            return LEAST if at < 0 else self.time_at(at)

        return time

    def time_at(self, at: int) -> int:
        """Store time (ms) of the record at log offset `at`; LEAST when there is no record."""
        position = at % self._found.log_size
        try:
            with self._log.file(file_name(at - position)) as fd:
                head = disk.read_at(fd, min(HEAD_BYTES, self._found.log_size - position), position)
        except FileNotFoundError:
            return LEAST
        if len(head) < HEAD_BYTES or not head_of(head).is_record:
            return LEAST
        return store_time_of(head)


# -- the log


def _log_tasks(found: Snapshot, options: Options, pushed: Pushed) -> list[tuple[Part, ...]]:
    ranges = [
        (base, max(start, pushed.places[0]), min(stop, min(pushed.places[1], MOST - 1) + 1))
        for base, start, stop in _files(found, options, pushed)
    ]
    ranges = [(base, start, stop) for base, start, stop in ranges if start < stop]
    total = sum(stop - start for _, start, stop in ranges)
    most = max(1, min(options.partition_bytes, -(-total // options.min_partitions)))
    kept = _kept(found, options)
    tasks: list[tuple[Part, ...]] = []
    parts: list[Part] = []
    room = most
    for base, first, stop in ranges:
        start = first
        pieces = -(-(stop - start) // most)
        size = -(-(stop - start) // pieces)
        while start < stop:
            end = min(stop, start + size)
            if parts and end - start > room:
                tasks.append(tuple(parts))
                parts, room = [], most
            parts.append(LogPart(found.path, found.log_size, base, start, end, kept))
            room -= end - start
            start = end
    return [*tasks, tuple(parts)] if parts else tasks


def _kept(found: Snapshot, options: Options) -> Kept:
    all_topics = not options.selects_topics and options.include_delayed
    return Kept(
        None if all_topics else options.wants,
        options.assigned is not None,
        options.since_ms,
        options.until_ms,
        found.deleted,
    )


def _files(found: Snapshot, options: Options, pushed: Pushed) -> Iterator[tuple[int, int, int]]:
    """The files of the log that may hold rows: (offset of the file, [start, stop) in the log)."""
    since = max(pushed.times[0], LEAST if options.since_ms is None else options.since_ms)
    until = min(pushed.times[1], MOST if options.until_ms is None else options.until_ms)
    bases = found.log_files
    with _Look(found) as look:
        timed = since > LEAST or until < MOST
        times = [look.time_at(base) if timed else LEAST for base in bases]
    for number, base in enumerate(bases):
        behind = times[number + 1] if number + 1 < len(bases) else LEAST
        if times[number] > until or LEAST < behind < since:
            continue
        yield base, max(base, found.least), min(base + found.log_size, found.end)
