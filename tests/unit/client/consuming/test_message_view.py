"""Messages as consumers get them, against the plain Python decoder; and damaged ones."""

from __future__ import annotations

import copy
import pickle
import random
import struct
import sys
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fence import Fence
from support.strategies import records

from silomq.client.consuming._mapped_queue import ALL, BAD_ENTRY, ELSEWHERE, FULL, take
from silomq.client.consuming._message_view import Memory
from silomq.client.consuming.message_view import MessageView
from silomq.store.consumequeue.queue import LEAST_TAGS_CODE
from silomq.store.errors import BadBody, Corrupt
from silomq.store.record.compression import Undecodable, decompress
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.properties import KEYS, encode_properties

if TYPE_CHECKING:
    from collections.abc import Iterable

ENTRY = struct.Struct(">qiq")
ATTRIBUTES = [
    name for name in dir(MessageView) if not name.startswith("_") and name not in ("check", "place")
]


def seen(view: MessageView) -> dict[str, Any]:
    found = {name: getattr(view, name) for name in ATTRIBUTES if name != "body"}
    try:
        return {**found, "body": view.body}
    except BadBody:
        return {**found, "body": None}


def plain_body(body: bytes, sys_flag: int) -> bytes | None:
    try:
        return decompress(body, sys_flag)
    except Undecodable:
        return None


def decoded(data: bytes, queue_offset: int) -> dict[str, Any]:
    """The twin: what a message says, from the plain decoder."""
    r = decode_record(data, check_crc=False)
    came_back = r.topic.startswith(("%RETRY%", "%DLQ%"))
    return {
        "record": data,
        "size": len(data),
        "queue_offset": queue_offset,
        "queue": (r.topic, r.queue_id),
        "offset_message_id": r.offset_message_id,
        "message_id": r.properties.get("UNIQ_KEY"),
        "origin_topic": r.properties.get("RETRY_TOPIC", r.topic) if came_back else r.topic,
        "keys": [key for key in r.properties.get(KEYS, "").split(" ") if key],
        **{
            name: getattr(r, name)
            for name in ATTRIBUTES
            if hasattr(r, name) and name != "queue_offset"
        },
        "body": plain_body(r.body, r.sys_flag),
        "raw_body": r.body,
    }


@given(records(), st.integers(0, 2**62))
def test_a_message_says_what_the_decoder_says(data: bytes, queue_offset: int) -> None:
    view = MessageView(data, queue_offset)
    assert seen(view) == decoded(data, queue_offset)
    for other in (copy.copy(view), pickle.loads(pickle.dumps(view))):
        assert seen(other) == seen(view)


def test_a_message_of_light_queues_has_an_offset_in_each() -> None:
    """RocketMQ's light queues (LMQ): `check` takes each of the offsets that the message names."""
    properties = {
        "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b",
        "INNER_MULTI_QUEUE_OFFSET": "12,7",
    }
    data = encode_record(b"t", b"body", encode_properties(properties), queue_offset=5)
    for offset in (5, 12, 7):
        MessageView(data, offset).check()
    for offset in (0, 1, 2, 127):
        with pytest.raises(Corrupt):
            MessageView(data, offset).check()


def test_a_body_that_does_not_decompress_says_which_one() -> None:
    data = encode_record(b"orders", b"no zlib", queue_id=3, queue_offset=7, sys_flag=0x301)
    view = MessageView(Memory(data, 1000, "file"), 7)
    with pytest.raises(BadBody, match=r"topic orders, queue 3, queue offset 7.*raw_body") as error:
        _ = view.body
    assert (error.value.path, error.value.offset) == ("file", 1000)
    assert view.raw_body == b"no zlib"
    view.check()


def test_text_that_is_no_utf8_is_replaced() -> None:
    data = encode_record(b"t", b"body", b"TAGS\x01a\xffb\x02KEYS\x01k\xc3 l\x02\xfe\x01v\x02")
    view = MessageView(data, 0)
    assert (view.tags, view.keys, view.body) == ("a\ufffdb", ["k\ufffd", "l"], b"body")
    assert view.properties == {"TAGS": "a\ufffdb", "KEYS": "k\ufffd l", "\ufffd": "v"}
    with pytest.raises(Corrupt, match="UTF-8"):
        view.check()


def test_check_holds_the_entry_against_the_record() -> None:
    data = encode_record(b"t", b"body", queue_offset=5)
    MessageView(data, 5).check()
    with pytest.raises(Corrupt, match="queue offset 4 of the queue leads to"):
        MessageView(data, 4).check()
    worse = data.replace(b"body", b"bodY")
    with pytest.raises(Corrupt, match="bodyCRC") as error:
        MessageView(Memory(worse, 1000, "file"), 5).check()
    assert (error.value.path, error.value.offset) == ("file", 1000 + data.index(b"body"))


def test_damage_never_crashes() -> None:
    rng = random.Random(4)
    good = [
        encode_record(
            b"topic" * rng.choice((1, 40)),
            rng.randbytes(rng.choice((0, 3, 200))),
            encode_properties({"TAGS": "a", "KEYS": "k l", "UNIQ_KEY": "u" * 32}),
            sys_flag=rng.choice((0, 0x30)),
        )
        for _ in range(20)
    ]
    fence = Fence(4096)
    corrupt = 0
    for _ in range(10_000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.choice((1, 1, 2, 8))):
            # Mostly the lengths and flags at both ends of the body.
            at = rng.choice((rng.randrange(len(data)), rng.randrange(8), 36 + rng.randrange(55)))
            data[at % len(data)] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        data = data[: rng.choice((len(data), len(data), rng.randrange(1, len(data) + 1)))]
        view = MessageView(fence.hold(bytes(data)), 7)
        for name in ATTRIBUTES:
            try:
                getattr(view, name)
            except Corrupt:
                corrupt += 1
        assert repr(view).startswith("MessageView(")
    assert corrupt > 10_000


def test_a_message_of_no_bytes() -> None:
    with pytest.raises(ValueError, match="a record has bytes"):
        MessageView(b"", 0)


@dataclass
class Queue:
    """A log from offset `base` on, and entries into it."""

    base: int
    log: bytes
    entries: list[tuple[int, int, int]]

    def twin(
        self, first: int, limit: int, codes: frozenset[int] | None, max_bytes: int
    ) -> tuple[list[tuple[int, bytes]], int, int]:
        """What `take` does, in plain Python."""
        found: list[tuple[int, bytes]] = []
        spent = 0
        for i, (at, size, code) in enumerate(self.entries):
            low = (code + 2**31) % 2**32 - 2**31
            leads_to_tags = code < LEAST_TAGS_CODE  # compared in the record
            if codes is None or leads_to_tags or low in codes:
                if found and spent + size > max_bytes:
                    return found, i, FULL
                if at < 0:
                    return found, i, BAD_ENTRY
                if not self.base <= at < self.base + len(self.log):
                    return found, i, ELSEWHERE
                if not 0 < size <= self.base + len(self.log) - at:
                    return found, i, BAD_ENTRY
                found.append((first + i, self.log[at - self.base :][:size]))
                spent += size
            if len(found) == limit:
                return found, i + 1, FULL
        return found, len(self.entries), ALL


CODES = st.sampled_from((0, 1, -1, 2**31, -(2**63), 2**40 + 5)) | st.integers(-40, 40)


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    base, size = draw(st.sampled_from((0, 1000))), draw(st.integers(1, 60))
    places = st.integers(base - 2, base + size + 2)
    sizes = st.integers(-1, 12)
    return Queue(
        base, bytes(range(size)), draw(st.lists(st.tuples(places, sizes, CODES), max_size=30))
    )


@settings(max_examples=400)
@given(
    queues(),
    st.integers(0, 2**60),
    st.integers(1, 40),
    st.none() | st.frozensets(st.integers(-40, 40), max_size=50),
    st.integers(1, 100) | st.just(sys.maxsize),
)
def test_take_equals_its_twin(
    queue: Queue, first: int, limit: int, codes: frozenset[int] | None, max_bytes: int
) -> None:
    entries = b"".join(ENTRY.pack(*entry) for entry in queue.entries)
    memory = Memory(queue.log, queue.base, "log")
    chosen = None if codes is None else array("i", sorted(codes))
    found, examined, why = take(memory, entries, first, limit, chosen, max_bytes)
    ours = [(view.queue_offset, view.record) for view in found]
    assert (ours, examined, why) == queue.twin(first, limit, codes, max_bytes)
    assert places(found) == [queue.entries[view.queue_offset - first][0] for view in found]


def places(views: Iterable[MessageView]) -> list[int]:
    return [view.place for view in views]


def test_without_a_file_the_first_entry_is_elsewhere() -> None:
    entries = ENTRY.pack(5, 5, 7) + ENTRY.pack(10, 5, 8)
    assert take(None, entries, 0, 10, None, 100) == ([], 0, ELSEWHERE)
    assert take(None, entries, 0, 10, array("i", [8]), 100) == ([], 1, ELSEWHERE)
    assert take(None, entries, 0, 10, array("i"), 100) == ([], 2, ALL)
