"""Look-ups by key in index files: the exact one, and RocketMQ's.

RocketMQ (`IndexService.queryOffset`, `DefaultMessageStore.queryMessage`) compares the key's 31-bit
hash and times in whole seconds, and stops after a number of *entries*. The exact look-up compares
topic, key and store time with the record, and returns each message once. The callers provide access
to the files and to messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from ..record.javahash import index_key_hash
from ..record.properties import UNIQ_KEY, index_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: RocketMQ's maxMsgsNumBatch: a query by its rules returns no more messages.
MOST_RESULTS: Final = 64


class Keyed(Protocol):
    """The fields of a message that a look-up by key reads. `store_timestamp` is epoch ms."""

    @property
    def topic(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def store_timestamp(self) -> int: ...
    @property
    def physical_offset(self) -> int: ...


M = TypeVar("M", bound=Keyed)


class KeyQuery(msgspec.Struct, frozen=True):
    """A query for the newest `most` messages of a topic that have a key and were stored in
    [begin_ms, end_ms] (epoch ms).
    """

    topic: str
    key: str
    most: int
    begin_ms: int
    end_ms: int

    def matches(self, message: Keyed) -> bool:
        """Whether the fields of the message's record satisfy the query."""
        return (
            message.topic == self.topic
            and self.key in index_keys(message.properties)
            and self.begin_ms <= message.store_timestamp <= self.end_ms
        )


class IndexChains:
    """One index file: `slots` slots, and the entries below number `count`. Their times are whole
    seconds after `begin_ms`. A subclass reads the bytes, in `slot` and `entry`.
    """

    slots: int
    count: int
    begin_ms: int
    end_ms: int

    def slot(self, number: int) -> int:
        """The number of the newest entry in the chain of a slot; 0 if the chain is empty."""
        raise NotImplementedError

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """An entry: key hash, log offset, seconds since `begin_ms`, number of the next older entry
        of the chain.
        """
        raise NotImplementedError

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether a file may have messages of a period (`IndexFile.isTimeMatched`)."""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    def chain(self, key_hash: int) -> Iterator[tuple[int, int, int]]:
        """The chain of `key_hash`, newest entry first: key hash, log offset, and store time (epoch
        ms) as far as the index has it.
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
    """The log offsets that RocketMQ's index finds for a query, newest first, at most `cap`. It
    compares the key's hash and times in whole seconds. `files` stand oldest first.
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
    """The messages that RocketMQ returns, by ascending log offset. Among them are messages of other
    keys with the same hash, and a message with two such keys stands there twice.

    `at` returns the message at a log offset, or None if none is readable there.
    """
    offsets = rocketmq_offsets(files, query, cap)
    return [message for message in map(at, sorted(offsets)) if message is not None]


def all_of(files: Sequence[IndexChains], topic: str, key: str) -> Iterator[int]:
    """The log offsets of all entries with the key's hash, newest first, of any store time."""
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
    """The newest `query.most` messages that match, each once, by ascending log offset. With
    `unique` only those whose UNIQ_KEY is the key. `at` is as in `rocketmq_messages`.
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
