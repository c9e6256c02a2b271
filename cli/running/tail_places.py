"""Where `silo tail` begins: earliest, latest, an offset, a time, or the last messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import click

from ...client.times import epoch_ms
from ...store.errors import CorruptRange, IllegalQuery
from ..shared.common import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...client.consuming.message_view import MessageView
    from ...client.lookup.store_reader import StoreReader
    from ...store.filters.tags import MessageFilter

_BATCH = 256
_MOST_BACK = 1 << 16  # messages read backwards at once


class AtTime(NamedTuple):
    """The first message of a queue that was stored at a time (epoch ms) or later."""

    ms: int


Place: TypeAlias = Literal["earliest", "latest"] | int | AtTime


def parse_place(text: str) -> Place:
    """The place that the option --from names. Raises click.BadParameter."""
    if text in {"earliest", "latest"}:
        return "earliest" if text == "earliest" else "latest"
    if text.startswith("@"):
        try:
            return at_time(epoch_ms(text[1:]))
        except IllegalQuery as error:
            raise click.BadParameter(str(error)) from error
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        why = f"{text[:60]!a} is not 'earliest', 'latest', a queue offset from 0 on, or @TIME"
        raise click.BadParameter(why)
    return int(text)


def at_time(ms: int) -> AtTime:
    """The place of a time that has been. Raises click.BadParameter."""
    if ms > time.time_ns() // 1_000_000:
        raise click.BadParameter(f"the time {ms} is in the future")
    return AtTime(ms)


def offset_of(place: Place, reader: StoreReader, topic: str, queue_id: int) -> int:
    """The queue offset that a place means in a queue now."""
    if place == "earliest":
        return reader.min_offset(topic, queue_id)
    if place == "latest":
        return reader.max_offset(topic, queue_id)
    if isinstance(place, AtTime):
        return reader.offset_at_time(topic, queue_id, place.ms)
    return place


def last_messages(
    reader: StoreReader,
    topic: str,
    ends: Mapping[int, int],
    count: int,
    wanted: MessageFilter,
) -> list[MessageView]:
    """The newest `count` messages that pass the filter, in the order in which they were stored.
    `ends` maps a queue id to the queue offset behind the last message to read.
    """
    found: list[MessageView] = []
    for queue_id, end in ends.items():
        newest: list[MessageView] = []
        for batch in _backwards(reader, topic, queue_id, end, count):
            newest = [message for message in batch if wanted.matches(message)] + newest
            if len(newest) >= count:
                break
        found += newest[-count:]
    found.sort(key=lambda message: message.physical_offset)
    return found[-count:]


def _backwards(
    reader: StoreReader, topic: str, queue_id: int, end: int, step: int
) -> Iterator[list[MessageView]]:
    """The messages of a queue from its end to its beginning, in batches of growing size, each in
    the order of the queue.
    """
    while end > (least := reader.min_offset(topic, queue_id)):
        begin = max(least, end - step)
        batches = read_queue(reader, topic, queue_id, begin, end)
        yield [message for batch in batches for message in batch]
        end, step = begin, min(2 * step, _MOST_BACK)


def read_queue(
    reader: StoreReader, topic: str, queue_id: int, begin: int, end: int
) -> Iterator[list[MessageView]]:
    """The messages of one queue with the queue offsets [begin, end), in batches. Says on stderr
    which declared holes it passes.
    """
    while begin < end:
        try:
            result = reader.get_message(topic, queue_id, begin, min(_BATCH, end - begin))
        except CorruptRange as hole:
            say(f"silo: {hole}")
            begin = hole.queue_offsets[1] if hole.queue_offsets else end
            continue
        if result.next_begin_offset <= begin:
            return
        begin = result.next_begin_offset
        yield [message for message in result.messages if message.queue_offset < end]


def read_stopped(
    reader: StoreReader,
    topic: str,
    queues: Sequence[int],
    start: Place,
    *,
    last: int | None,
    wanted: MessageFilter,
) -> Iterator[list[MessageView]]:
    """The messages of a store that does not run, queue after queue; with `last` only the newest."""
    chosen = queues or range(reader.read_queues(topic))
    ends = {queue_id: reader.max_offset(topic, queue_id) for queue_id in chosen}
    if last is not None:
        yield last_messages(reader, topic, ends, last, wanted)
        return
    for queue_id, end in ends.items():
        begin = offset_of(start, reader, topic, queue_id)
        yield from read_queue(reader, topic, queue_id, begin, end)
