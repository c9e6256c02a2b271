"""Finds out in a store's files what the topics with limits of their own keep.

Of each such topic it looks at the log's files, oldest first, until one is not expired for the topic
(`topic_limits.py`), and then at the first entry of each of its queues behind that. `Seen` keeps
what later looks need again: thousands of topics have too many files to open them each time.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ..config import topics as topics_json
from ..consumequeue.queue import ENTRY_SIZE, QueueFiles
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

_SIZE_AT: Final = 2  # the place of an entry's size in its five words of four bytes
_WORDS: Final = ENTRY_SIZE // 4
_PIECE: Final = ENTRY_SIZE * 50_000


class Seen(msgspec.Struct, frozen=True):
    """What was found out about topics, by their numbers.

    `sizes` has the bytes of a topic's messages in the log's file at an offset. `firsts` has a log
    offset, and that of the first message of the topic from there on: later ones lie behind it.
    """

    sizes: dict[tuple[int, int], int] = {}
    firsts: dict[int, tuple[int, int]] = {}

    def drop_sizes(self, begin: int) -> None:
        """Forgets the sizes in files before the log's `begin`."""
        for key in [key for key in self.sizes if key[1] < begin]:
            del self.sizes[key]


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
    gives the number of a topic, which one that was deleted and made again must not share, and 0 for
    a topic of which nothing is to be `seen`. Calls `beat` for each queue.
    """

    def __init__(
        self,
        queues: QueueFiles,
        own: Mapping[str, TopicLimits],
        files: Sequence[LogFileAge],
        limits: Limits,
        offsets: Callable[[], Offsets],
        *,
        seen: Seen,
        number_of: Callable[[str], int],
        beat: Callable[[], None],
    ) -> None:
        self._queues = queues
        self._own = own
        self._files = [file for file in files if limits.may_go(file)]
        self._begin = files[0].base if files else 0
        self._limits = limits
        self._offsets = offsets
        self._seen = seen
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
            first = self._first_of(topic, begins[topic])
            if first != NOWHERE:
                held.append(Held(first, topic, kept))
        least = min(held, key=lambda each: each.log_offset, default=None)
        floor = NOWHERE if least is None else least.log_offset
        # The messages of a topic with a size may expire at any time.
        times = (0 if own.size else own.time_h for own in self._own.values())
        soonest_h = min((hours for hours in times if hours is not None), default=None)
        return TopicsKeep(begins, least, self._released(floor), soonest_h)

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
        cleaner = QueueCleaner(self._queues, self._begin, 0)
        found = first_unconsumed(self._offsets_by_topic.get(topic, {}), cleaner, self._beat)
        return NOWHERE if found is None else found.log_offset

    @functools.cached_property
    def _offsets_by_topic(self) -> Mapping[str, Offsets]:
        found: dict[str, dict[tuple[str, str], Mapping[int, int]]] = defaultdict(dict)
        for pair, queues in self._offsets().items():
            found[pair[0]][pair] = queues
        return found

    def _first_of(self, topic: str, begin: int) -> int:
        """The log offset of the topic's first message from `begin` on, NOWHERE if it has none."""
        number = self._number_of(topic)
        since, first = self._seen.firsts.get(number, (NOWHERE, 0))
        if since <= begin <= first:
            return first
        first = NOWHERE
        cleaner = QueueCleaner(self._queues, begin, 0)
        for _, queue_id, _ in self._queues.queues_of(topic):
            self._beat()
            _, log_offset = cleaner.first_from(topic, queue_id, 0)
            if log_offset is not None:
                first = min(first, log_offset)
        if number and first != NOWHERE:
            self._seen.firsts[number] = begin, first
        return first

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
            first = self._first_of(topic, self._begin)
            while ends and ends[-1] > first:
                ends.pop()
        return ends[-1] if ends else 0

    def _following(self, topic: str) -> dict[int, int]:
        """For each file, by its offset: the bytes of the topic's messages in the files behind it.
        The last files, which are not dispatched durably, do not count yet.
        """
        number, sizes = self._number_of(topic), self._seen.sizes
        missing = [file.base for file in self._files if (number, file.base) not in sizes]
        if missing:
            measured = self._sizes_in(topic, missing)
            sizes.update({(number, base): size for base, size in measured.items()})
        found: dict[int, int] = {}
        total = 0
        for file in reversed(self._files):
            found[file.base] = total
            total += sizes[number, file.base]
        return found

    def _sizes_in(self, topic: str, bases: Sequence[int]) -> dict[int, int]:
        """The bytes of the topic's messages in each of the log's files at `bases`, ascending."""
        sizes = dict.fromkeys(bases, 0)
        end = bases[-1] + self._limits.file_size
        first, behind = (QueueCleaner(self._queues, at, 0) for at in (bases[0], end))
        for _, queue_id, folder in self._queues.queues_of(topic):
            self._beat()
            low, _ = first.first_from(topic, queue_id, 0)
            high, _ = behind.first_from(topic, queue_id, low)
            for words in self._pieces(folder, low, high):
                self._add_sizes(sizes, words)
        return sizes

    def _add_sizes(self, sizes: dict[int, int], words: array[int]) -> None:
        """Adds the sizes of the records to which entries lead, all entries of one file at once."""

        def log_offset(number: int) -> int:
            return words[number * _WORDS] << 32 | words[number * _WORDS + 1]

        count, file_size = len(words) // _WORDS, self._limits.file_size
        at = 0
        while at < count:
            base = log_offset(at) // file_size * file_size
            behind = bisect_left(range(count), base + file_size, at, key=log_offset)
            if base in sizes:
                sizes[base] += sum(words[at * _WORDS + _SIZE_AT : behind * _WORDS : _WORDS])
            at = behind

    def _pieces(self, queue: Folder, low: int, high: int) -> Iterator[array[int]]:
        """The entries of a queue between two queue offsets, as words, in pieces."""
        at, end = low * ENTRY_SIZE, high * ENTRY_SIZE
        while at < end:
            self._beat()
            place = at % self._queues.file_size
            length = min(_PIECE, end - at, self._queues.file_size - place)
            with queue.file(file_name(at - place)) as fd:
                words = array("I", disk.read_at(fd, length, place))
            words.byteswap()
            yield words
            at += length


def without(offsets: Offsets, topics: Iterable[str]) -> Offsets:
    """What groups have consumed of other topics."""
    gone = set(topics)
    return {pair: queues for pair, queues in offsets.items() if pair[0] not in gone}
