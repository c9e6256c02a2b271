"""Finds out in a store's files what the topics with limits of their own keep.

Of each such topic it looks at the log's files, oldest first, until one is not expired for the topic
(`topic_limits.py`), and then at the first entry of each of its queues behind that.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..config import topics as topics_json
from ..consumequeue.queue import BLANK_SIZE, ENTRY_SIZE, QueueFiles
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import TOPICS, file_name
from ..disk.stamps import stamp
from ..names import is_system_topic
from .consumption import Offsets, first_unconsumed
from .removal import QueueCleaner
from .topic_limits import (
    NOWHERE,
    Held,
    Kept,
    TopicLimits,
    TopicsKeep,
    bad_attribute,
    begin_of,
    kept_ms,
    limits_of,
)

if TYPE_CHECKING:
    from .judgement import Limits
    from .rules import LogFileAge

#: The messages of a topic in a file of the log, bytes, by the topic's number and the file's offset.
Sizes = dict[tuple[int, int], int]
_SIZE_AT: Final = 2  # the place of an entry's size in its five words of four bytes
_WORDS: Final = ENTRY_SIZE // 4
_PIECE: Final = ENTRY_SIZE * 50_000


class OwnLimits:
    """The limits in the folder `config`. The file, or its backup if it is missing, is read at first
    and when it has changed. `warn` is then told which attributes can be no limits.
    """

    def __init__(self, config: Folder, warn: Callable[[str], None]) -> None:
        self._config = config
        self._warn = warn
        self._stamp: int | None = None
        self._found: Mapping[str, TopicLimits] = {}

    def read(self) -> Mapping[str, TopicLimits]:
        """The limits of the topics that have some. Raises Corrupt, OSError."""
        try:
            now = stamp(self._config, TOPICS)
        except FileNotFoundError:
            now = 0
        if now != self._stamp:
            table, _ = topics_json.load(f"{self._config.path}/{TOPICS}")
            limits: dict[str, TopicLimits] = {}
            for name, topic in table.topics.items():
                if is_system_topic(name):
                    continue
                if why := bad_attribute(topic.attributes):
                    self._warn(f"topic {name}: {why}; the setting holds")
                if own := limits_of(topic.attributes):
                    limits[name] = own
            self._found = limits
            self._stamp = now
        return self._found


class TopicRetention:
    """Looks at the topics that have limits of their `own`, at one moment.

    `files` are those of the log, oldest first, and `offsets` what groups have consumed. `number_of`
    gives the number of a topic, which one that was deleted and made again must not share; the sizes
    in `sizes` are found once for each. Calls `beat` for each queue.
    """

    def __init__(
        self,
        queues: QueueFiles,
        own: Mapping[str, TopicLimits],
        files: Sequence[LogFileAge],
        limits: Limits,
        offsets: Callable[[], Offsets],
        *,
        sizes: Sizes,
        number_of: Callable[[str], int],
        beat: Callable[[], None],
    ) -> None:
        self._queues = queues
        self._own = own
        self._files = [file for file in files if limits.may_go(file)]
        self._begin = files[0].base if files else 0
        self._limits = limits
        self._offsets = offsets
        self._sizes = sizes
        self._number_of = number_of
        self._beat = beat

    def look(self) -> TopicsKeep:
        """What they keep. Raises Corrupt for offsets that cannot be read, OSError."""
        begins: dict[str, int] = {}
        held: list[Held] = []
        for topic, own in self._own.items():
            begins[topic], kept = begin_of(
                self._judged(topic, own), self._begin, self._limits.file_size
            )
            first = min(self._first_of(topic, begins[topic]), default=NOWHERE)
            if first != NOWHERE:
                held.append(Held(first, topic, kept))
        least = min(held, key=lambda each: each.log_offset, default=None)
        floor = NOWHERE if least is None else least.log_offset
        return TopicsKeep(begins, least, self._released(floor))

    def _judged(self, topic: str, own: TopicLimits) -> Iterator[tuple[LogFileAge, Kept | None]]:
        following = self._following(topic) if own.size else {}
        unconsumed: int | None = None
        for file in self._files:
            kept = self._by_time_and_size(file, own, following)
            hours = self._limits.unconsumed_h if own.unconsumed_h is None else own.unconsumed_h
            if kept is None and self._limits.now_ms < kept_ms(file, hours):
                if unconsumed is None:
                    unconsumed = self._first_unconsumed(topic)
                if unconsumed < file.base + self._limits.file_size:
                    kept = Kept(hours, unconsumed=True)
            yield file, kept

    def _by_time_and_size(
        self, file: LogFileAge, own: TopicLimits, following: Mapping[int, int]
    ) -> Kept | None:
        hours = self._limits.reserved_h if own.time_h is None else own.time_h
        if self._limits.now_ms >= kept_ms(file, hours):
            return None
        if own.size is None:
            is_too_large = self._limits.is_too_large(file.base)
        else:
            is_too_large = 0 < own.size <= following.get(file.base, 0)
        return None if is_too_large else Kept(hours)

    def _first_unconsumed(self, topic: str) -> int:
        """The log offset of the topic's first message that a group has not consumed."""
        offsets = {pair: at for pair, at in self._offsets().items() if pair[0] == topic}
        found = first_unconsumed(offsets, QueueCleaner(self._queues, self._begin, 0), self._beat)
        return NOWHERE if found is None else found.log_offset

    def _first_of(self, topic: str, begin: int) -> Iterator[int]:
        """The first log offset from `begin` on in each queue of a topic that has one."""
        cleaner = QueueCleaner(self._queues, begin, 0)
        for _, queue_id, _ in self._queues.queues_of(topic):
            self._beat()
            _, log_offset = cleaner.first_from(topic, queue_id, 0)
            if log_offset is not None:
                yield log_offset

    def _released(self, floor: int) -> int:
        """The end of the last file that no message keeps. It ends at the first message of another
        topic, and looks no further than it must.
        """
        size = self._limits.file_size
        ends = [file.base + size for file in self._files if file.base + size <= floor]
        for topic in self._queues.topics():
            if topic in self._own:
                continue
            if not ends:
                break
            for first in self._first_of(topic, self._begin):
                while ends and ends[-1] > first:
                    ends.pop()
                if not ends:
                    break
        return ends[-1] if ends else 0

    def _following(self, topic: str) -> dict[int, int]:
        """For each file, by its offset: the bytes of the topic's messages in the files behind it.
        The last files, which are not dispatched durably, do not count yet.
        """
        found: dict[int, int] = {}
        total = 0
        number = self._number_of(topic)
        for file in reversed(self._files):
            found[file.base] = total
            key = number, file.base
            if key not in self._sizes:
                end = file.base + self._limits.file_size
                self._sizes[key] = self._size_between(topic, file.base, end)
            total += self._sizes[key]
        return found

    def _size_between(self, topic: str, begin: int, end: int) -> int:
        first, behind = (QueueCleaner(self._queues, at, 0) for at in (begin, end))
        total = 0
        for _, queue_id, folder in self._queues.queues_of(topic):
            self._beat()
            low, _ = first.first_from(topic, queue_id, 0)
            high, _ = behind.first_from(topic, queue_id, low)
            total += sum(self._sizes_of(folder, low, high))
        return total

    def _sizes_of(self, queue: Folder, low: int, high: int) -> Iterator[int]:
        """The sums of the records' sizes in pieces of a queue, between two queue offsets."""
        at, end = low * ENTRY_SIZE, high * ENTRY_SIZE
        while at < end:
            self._beat()
            place = at % self._queues.file_size
            length = min(_PIECE, end - at, self._queues.file_size - place)
            with queue.file(file_name(at - place)) as fd:
                yield _sum(disk.read_at(fd, length, place))
            at += length


def _sum(entries: bytes) -> int:
    words = array("I", entries)
    words.byteswap()
    sizes = words[_SIZE_AT::_WORDS]
    return sum(sizes) - BLANK_SIZE * sizes.count(BLANK_SIZE)


def without(offsets: Offsets, topics: Iterable[str]) -> Offsets:
    """What groups have consumed of other topics."""
    gone = set(topics)
    return {pair: queues for pair, queues in offsets.items() if pair[0] not in gone}
