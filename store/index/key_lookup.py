"""Look-ups by key, over index files however they are held: RocketMQ's answer, and the right one.

RocketMQ (`IndexService.queryOffset`, `DefaultMessageStore.queryMessage`) compares the key's 31-bit
hash and times in whole seconds, and stops after a number of *entries*. The right answer looks into
the record: topic, key and store time count, and each message once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ..record.javahash import index_key_hash
from ..record.properties import UNIQ_KEY, index_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: RocketMQ's maxMsgsNumBatch: a query by its rules gives no more.
MOST_RESULTS: Final = 64


class Keyed(Protocol):
    """What a message must tell to be found by a key; its time is epoch ms."""

    @property
    def topic(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def store_timestamp(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...


M = TypeVar("M", bound=Keyed)


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Asks which messages of a topic have a key and were stored in [begin_ms, end_ms] (epoch ms):
    the newest `most` of them.
    """

    topic: str
    key: str
    most: int
    begin_ms: int
    end_ms: int

    def matches(self, message: Keyed) -> bool:
        """Whether the message is what is asked for, by what its record says."""
        return (
            message.topic == self.topic
            and self.key in index_keys(message.properties)
            and self.begin_ms <= message.store_timestamp <= self.end_ms
        )


class IndexChains:
    """One index file: `slots` slots and entries up to number `count` (the next one's), whose times
    are whole seconds behind `begin_ms`. Who holds the bytes provides `slot` and `entry`.
    """

    slots: int
    count: int
    begin_ms: int
    end_ms: int

    def slot(self, number: int) -> int:
        """The newest entry of a chain; 0 where there is none."""
        raise NotImplementedError

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """Key hash, log address, seconds since `begin_ms`, next older entry of the chain."""
        raise NotImplementedError

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """RocketMQ's test of a file's times against a query's."""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    def chain(self, key_hash: int) -> Iterator[tuple[int, int, int]]:
        """The chain that `key_hash` is in, newest first: key hash, log address, and the time (ms)
        by the index.
        """
        number = self.slot(key_hash % self.slots)
        seen = 0
        while 0 < number <= self.count and self.count > 1 and seen < self.count:
            found, offset, seconds, older = self.entry(number)
            if seconds < 0:
                return
            yield found, offset, self.begin_ms + seconds * 1000
            if older == number:
                return
            number, seen = older, seen + 1


def rocketmq_offsets(files: Sequence[IndexChains], query: KeyQuery, cap: int) -> list[int]:
    """Log addresses as RocketMQ's index gives them, newest first, at most `cap`: all of the key's
    hash, by times in whole seconds. `files` ascend by age.
    """
    most = min(query.most, cap)
    key_hash = index_key_hash(query.topic, query.key)
    found: list[int] = []
    for file in reversed(files):
        if file.overlaps(query.begin_ms, query.end_ms):
            for entry_hash, offset, stored_ms in file.chain(key_hash):
                if len(found) >= most:
                    break
                if entry_hash == key_hash and query.begin_ms <= stored_ms <= query.end_ms:
                    found.append(offset)
                if stored_ms < query.begin_ms:
                    break
        if file.begin_ms < query.begin_ms or len(found) >= most:
            break
    return found


def rocketmq_messages(
    files: Sequence[IndexChains], query: KeyQuery, cap: int, at: Callable[[int], M | None]
) -> list[M]:
    """What RocketMQ answers: what can be read of the addresses, ascending; other keys of the same
    hash with it, and a message twice that has two such keys.

    `at` gives the message at an address, None where none can be read.
    """
    offsets = rocketmq_offsets(files, query, cap)
    return [message for message in map(at, sorted(offsets)) if message is not None]


def all_of(files: Sequence[IndexChains], topic: str, key: str) -> Iterator[int]:
    """Log addresses of everything that has the key's hash, newest first, whenever stored."""
    key_hash = index_key_hash(topic, key)
    for file in reversed(files):
        for entry_hash, offset, _ in file.chain(key_hash):
            if entry_hash == key_hash:
                yield offset


def matching(
    files: Sequence[IndexChains],
    query: KeyQuery,
    at: Callable[[int], M | None],
    *,
    unique: bool = False,
) -> list[M]:
    """The newest `query.most` messages that match, each once, by ascending address; with `unique`
    only those whose UNIQ_KEY it is.
    """
    found: dict[int, M] = {}
    for offset in all_of(files, query.topic, query.key):
        if len(found) >= query.most:
            break
        message = None if offset in found else at(offset)
        if message is None or not query.matches(message):
            continue
        if not unique or message.properties.get(UNIQ_KEY) == query.key:
            found[offset] = message
    return [found[offset] for offset in sorted(found)]
