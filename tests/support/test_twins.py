"""The twins themselves, where no golden store holds them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.plain_records import is_blank
from support.twins import (
    AppendMessageStatus,
    Queue,
    twin_append,
    twin_dispatch,
    twin_index,
    walk,
)

from silomq.store.record.format import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    decode_record,
    encode_record,
)
from silomq.store.record.javahash import index_key_hash
from silomq.store.record.properties import encode_properties


def message(size: int, topic: str = "t", sys_flag: int = 0, **properties: str) -> bytes:
    """A record of `size` bytes in all."""
    encoded = encode_properties(properties)
    body = bytes(size - 91 - len(topic) - len(encoded))
    return encode_record(topic.encode(), body, encoded, sys_flag=sys_flag)


def test_a_record_may_end_8_bytes_before_the_end() -> None:
    log = bytearray()
    table: dict[Queue, int] = {}
    wrote, results = twin_append(
        log, 1000, 0, table, [message(992), message(200), message(793), message(993)],
        store_timestamp=5,
    )  # fmt: skip
    assert [(r.status, r.physical_offset, r.queue_offset) for r in results] == [
        (AppendMessageStatus.PUT_OK, 0, 0),
        (AppendMessageStatus.PUT_OK, 1000, 1),
        (AppendMessageStatus.PUT_OK, 2000, 2),
        (AppendMessageStatus.MESSAGE_SIZE_EXCEEDED, -1, -1),
    ]
    assert wrote == 2793
    assert is_blank(log, 992, 8)
    assert is_blank(log, 1200, 800)
    assert log[1208:2000] == bytes(792)
    assert table == {("t", 0): 3}


def test_a_batch_goes_into_one_file_or_the_next() -> None:
    log = bytearray()
    table = {("t", 0): 40}
    batch = message(200) * 3
    wrote, results = twin_append(log, 1000, 0, table, [batch, batch], store_timestamp=5)
    assert [r.physical_offset for r in results] == [0, 1000]
    assert [r.queue_offset for r in results] == [40, 43]
    assert [(r.wrote_bytes, r.message_num) for r in results] == [(600, 3)] * 2
    assert is_blank(log, 600, 400)
    records = list(walk(bytes(log), 1000, 0, wrote))
    assert [r.queue_offset for r in records] == list(range(40, 46))
    assert [r.physical_offset for r in records] == [0, 200, 400, 1000, 1200, 1400]
    assert {r.store_timestamp for r in records} == {5}


def test_prepared_and_rollback_take_no_queue_offset() -> None:
    log = bytearray()
    table: dict[Queue, int] = {}
    kinds = (0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, 0)
    frames = [message(100, sys_flag=kind) for kind in kinds]
    twin_append(log, 1000, 0, table, frames, store_timestamp=5)
    records = list(walk(bytes(log), 1000))
    assert [r.queue_offset for r in records] == [0, 0, 1, 0, 2]
    assert [e.physical_offset for e in twin_dispatch(records)[("t", 0)].values()] == [0, 200, 400]


@given(st.lists(st.lists(st.integers(92, 300), min_size=1, max_size=4), max_size=12), st.booleans())
def test_what_append_writes_is_read_back(sizes: list[list[int]], record_crc: bool) -> None:
    log = bytearray()
    frames = []
    for frame in sizes:
        bodies = [bytes(size - 92) for size in frame]
        frames.append(b"".join(encode_record(b"t", b, record_crc=record_crc) for b in bodies))
    wrote, results = twin_append(log, 700, 0, {}, frames, store_timestamp=7, record_crc=record_crc)
    records = list(walk(bytes(log), 700, 0, wrote))
    assert [r.queue_offset for r in records] == list(range(len(records)))
    assert sum(r.message_num for r in results) == len(records)
    for data, result in zip(frames, results, strict=True):
        fits = len(data) + 8 <= 700
        assert (result.status == AppendMessageStatus.PUT_OK) == fits
        if fits:
            start = result.physical_offset
            assert start // 700 == (start + len(data) - 1) // 700
            assert decode_record(log, start).physical_offset == start


def test_delayed_messages_are_queued_by_their_time() -> None:
    log = bytearray()
    topic = "SCHEDULE_TOPIC_XXXX"
    levels = ("1", "18", "99", "0", "-1")
    frames = [message(200, topic, DELAY=level, TAGS="TagA") for level in levels]
    twin_append(log, 5000, 0, {}, [*frames, message(200, topic)], store_timestamp=1_000_000)
    codes = [e.tags_code for e in twin_dispatch(walk(bytes(log), 5000))[(topic, 0)].values()]
    two_hours = 1_000_000 + 7_200_000
    assert codes == [1_001_000, two_hours, two_hours, 2598919, 2598919, 0]


def test_index_slots_are_counted_once_and_files_follow_each_other() -> None:
    log = bytearray()
    frames = [message(200, KEYS="a b"), message(200, KEYS="a a"), message(200, KEYS="c")]
    wrote = 0
    for i, frame in enumerate(frames):
        wrote, _ = twin_append(log, 5000, wrote, {}, [frame], store_timestamp=10_000 + 2500 * i)
    first, second = twin_index(walk(bytes(log), 5000), 7, 4)
    assert (first.index_count, second.index_count) == (4, 3)
    used = len({index_key_hash("t", key) % 7 for key in "ab"})
    assert first.hash_slot_count == used
    assert (first.begin_timestamp, first.end_timestamp) == (10_000, 12_500)
    # The second file's first entry is the rest of the second message: measured against the preset.
    assert (second.begin_phy, second.begin_timestamp) == (200, 12_500)
    entries = 40 + 4 * 7
    data = second.bytes()
    assert int.from_bytes(data[entries + 20 + 12 : entries + 36], "big") == 0
    assert int.from_bytes(data[entries + 40 + 12 : entries + 56], "big") == 2


def test_a_full_index_file_is_followed_even_by_a_record_without_keys() -> None:
    log = bytearray()
    twin_append(log, 5000, 0, {}, [message(200, KEYS="a b c"), message(200)], store_timestamp=9)
    first, second = twin_index(walk(bytes(log), 5000), 7, 4)
    assert first.full
    assert (second.index_count, second.begin_phy, second.end_phy) == (1, 0, 0)
    assert (second.begin_timestamp, second.end_timestamp) == (9, 9)
