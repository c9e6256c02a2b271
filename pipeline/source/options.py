"""The options of the data source, with the names of Spark's Kafka source. Spark-free.

As Spark requires, values are strings and names are not case-sensitive. An unknown option is an
error, because a misspelt one would otherwise be ignored silently.
"""

from __future__ import annotations

import glob
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...conf.digits import number
from ...store.disk.files import is_folder
from ...store.names import SCHEDULE_TOPIC, TIMER_TOPIC
from .snapshot import DataLoss, NotAStore

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Topics in which delayed messages wait; a message that is due gets a new record in its own topic.
DELAYED_TOPICS: Final = frozenset((SCHEDULE_TOPIC, TIMER_TOPIC))
EARLIEST: Final = -2
LATEST: Final = -1
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_NAMES: Final = (
    "path", "paths", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "minPartitions", "maxPartitionBytes",
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "failOnDataLoss", "verifyCrc", "includeDelayed",
    "onCorrupt", "rawBodies",
)  # fmt: skip
_ON_CORRUPT: Final = ("fail", "skip", "row")
#: Bytes of a commit-log file that one task reads. Smaller parts cost more: a reader that begins in
#: the middle of a file first walks over its records from the file's beginning.
PARTITION_BYTES: Final = 512 << 20


class BadOption(ValueError):
    """An option of the data source that is not valid; the message says what is."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where to begin or end in each queue: at `everywhere`, except for the queues in `queues`
    (topic -> queue id -> offset). EARLIEST and LATEST are offsets too.
    """

    everywhere: int
    queues: Mapping[str, Mapping[int, int]]

    @property
    def named(self) -> bool:
        """Whether offsets of single queues are given."""
        return bool(self.queues)

    def of(self, topic: str, queue_id: int, least: int, end: int) -> int:
        """The queue offset that is meant, in a queue that holds [least, end)."""
        found = self.queues.get(topic, {}).get(queue_id, self.everywhere)
        return {EARLIEST: least, LATEST: end}.get(found, found)


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options. Times are epoch ms, both bounds included."""

    patterns: tuple[str, ...]
    topics: frozenset[str] | None
    pattern: re.Pattern[str] | None
    assigned: Mapping[str, frozenset[int]] | None
    starting: Offsets | None
    ending: Offsets
    since_ms: int | None
    until_ms: int | None
    min_partitions: int
    partition_bytes: int
    max_offsets: int | None
    max_bytes: int | None
    fail_on_data_loss: bool
    verify_crc: bool
    include_delayed: bool
    on_corrupt: str
    raw_bodies: bool

    @property
    def selects_topics(self) -> bool:
        """Whether only some topics are selected."""
        return self.topics is not None or self.pattern is not None or self.assigned is not None

    def wants(self, topic: str, queue_id: int | None = None) -> bool:
        """Whether a queue, or any queue of a topic, is selected."""
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        if self.assigned is not None:
            queues = self.assigned.get(topic, frozenset())
            return bool(queues) if queue_id is None else queue_id in queues
        return self.include_delayed or topic not in DELAYED_TOPICS

    def stores(self) -> list[str]:
        """The folders of the stores, each once. Raises NotAStore for a pattern that matches no
        folder.
        """
        found: dict[str, None] = {}
        for pattern in self.patterns:
            folders = [pattern]
            if glob.has_magic(pattern) and not is_folder(pattern):
                folders = sorted(filter(is_folder, glob.glob(pattern)))
                if not folders:
                    raise NotAStore(f"no folder fits {pattern}")
            found.update((os.path.realpath(folder), None) for folder in folders)
        return list(found)

    def lose(self, why: str) -> None:
        """Reports that selected data is missing: raises DataLoss unless failOnDataLoss is false."""
        if self.fail_on_data_loss:
            raise DataLoss(
                f"{why}; set failOnDataLoss to false to read what is left, or keep messages "
                "for longer (file_reserved_time_h)"
            )


def parse(given: Mapping[str, str], *, streaming: bool) -> Options:
    """The options of a read. Raises BadOption."""
    known = {name.lower(): name for name in _NAMES}
    for name in given:
        if name.lower() not in known:
            raise BadOption(f"the source silomq has no option {name}; it has: {', '.join(_NAMES)}")
    texts = {known[name.lower()]: value for name, value in given.items()}
    chosen = [n for n in ("subscribe", "subscribePattern", "assign") if n in texts]
    if len(chosen) > 1:
        raise BadOption(f"{' and '.join(chosen)} are both given: one of them selects the topics")
    starting = _offsets(texts, "startingOffsets", default=None)
    since = _number(texts, "startingTimestamp", least=0)
    if starting is not None and since is not None:
        raise BadOption("startingOffsets and startingTimestamp are both given: give one of them")
    for name in ("endingOffsets", "endingTimestamp") if streaming else ():
        if name in texts:
            raise BadOption(f"{name}: a stream does not end; read a batch instead")
    ending = _offsets(texts, "endingOffsets", default="latest")
    assert ending is not None
    if ending.everywhere == EARLIEST or any(
        EARLIEST in queues.values() for queues in ending.queues.values()
    ):
        raise BadOption("endingOffsets: earliest, or -2, is where nothing has been read")
    on_corrupt = texts.get("onCorrupt", "fail").lower()
    if on_corrupt not in _ON_CORRUPT:
        raise BadOption(f"onCorrupt {on_corrupt!r}: one of {', '.join(_ON_CORRUPT)}")
    return Options(
        patterns=_paths(texts),
        topics=_topics(texts),
        pattern=_pattern(texts),
        assigned=_assigned(texts),
        starting=starting,
        ending=ending,
        since_ms=since,
        until_ms=_number(texts, "endingTimestamp", least=0),
        min_partitions=_number(texts, "minPartitions") or 1,
        partition_bytes=_number(texts, "maxPartitionBytes") or PARTITION_BYTES,
        max_offsets=_number(texts, "maxOffsetsPerTrigger"),
        max_bytes=_number(texts, "maxBytesPerTrigger"),
        fail_on_data_loss=_flag(texts, "failOnDataLoss", default=True),
        verify_crc=_flag(texts, "verifyCrc", default=False),
        include_delayed=_flag(texts, "includeDelayed", default=False),
        on_corrupt=on_corrupt,
        raw_bodies=_flag(texts, "rawBodies", default=False),
    )


def _paths(texts: Mapping[str, str]) -> tuple[str, ...]:
    found = [texts["path"]] if texts.get("path") else []
    if "paths" in texts:
        value = _json("paths", texts["paths"])
        if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
            raise BadOption('paths: a JSON list of folders, as ["/data/a", "/data/b*"]')
        found += value
    if not found:
        raise BadOption('which store? give its folder, as in .load("/var/lib/silomq")')
    return tuple(path.removeprefix("file://") for path in found)


def _topics(texts: Mapping[str, str]) -> frozenset[str] | None:
    if "subscribe" not in texts:
        return None
    names = frozenset(filter(None, (name.strip() for name in texts["subscribe"].split(","))))
    if not names:
        raise BadOption("subscribe: names of topics, with commas between them")
    return names


def _pattern(texts: Mapping[str, str]) -> re.Pattern[str] | None:
    if "subscribePattern" not in texts:
        return None
    try:
        return re.compile(texts["subscribePattern"])
    except re.error as error:
        raise BadOption(f"subscribePattern is no regular expression: {error}") from error


def _assigned(texts: Mapping[str, str]) -> Mapping[str, frozenset[int]] | None:
    if "assign" not in texts:
        return None
    value = _json("assign", texts["assign"])
    if not isinstance(value, dict) or not all(
        isinstance(queues, list) and all(type(q) is int and q >= 0 for q in queues)
        for queues in value.values()
    ):
        raise BadOption('assign: JSON of topics and queue ids, as {"orders": [0, 1]}')
    return {topic: frozenset(queues) for topic, queues in value.items()}


def _offsets(texts: Mapping[str, str], name: str, *, default: str | None) -> Offsets | None:
    text = texts.get(name, default)
    if text is None:
        return None
    if text.strip().lower() in _WORDS:
        return Offsets(_WORDS[text.strip().lower()], {})
    hint = f'{name} {text!r}: earliest, latest, or JSON as {{"orders": {{"0": 23, "1": -2}}}}'
    value = _json(name, text)
    if not isinstance(value, dict):
        raise BadOption(hint)
    found: dict[str, dict[int, int]] = {}
    for topic, queues in value.items():
        if not isinstance(queues, dict):
            raise BadOption(hint)
        for queue_id, offset in queues.items():
            queue = number(queue_id, 2**31 - 1)
            if queue is None or type(offset) is not int:
                raise BadOption(hint)
            if offset < EARLIEST:
                raise BadOption(f"{name}: offset {offset} of {topic}; -2 is the earliest")
            found.setdefault(topic, {})[queue] = offset
    return Offsets(EARLIEST if name == "startingOffsets" else LATEST, found)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadOption(f"{name} is no JSON: {error}") from error


def _number(texts: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    if name not in texts:
        return None
    text = texts[name].strip()
    found = number(text, (1 << 63) - 1)
    if found is None or found < least:
        raise BadOption(f"{name} {text!r}: a whole number from {least} on")
    return found


def _flag(texts: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = texts.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise BadOption(f"{name} {text!r}: true or false")
    return text == "true"
