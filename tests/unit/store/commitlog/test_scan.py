"""The scan kernel: good logs, torn tails, flipped bytes, lying lengths."""

from __future__ import annotations

import random
import struct

import pytest
from support.frames import random_batch
from support.record_check import check_record
from support.twins import Queue, twin_append

from silomq.store.commitlog import _scan as kernel
from silomq.store.errors import Corrupt
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.properties import encode_properties

FILE_SIZE = 8000
BASE = 5 * FILE_SIZE


def file_of(rng: random.Random, limit: int = FILE_SIZE) -> tuple[bytearray, list[int], int]:
    """A file at BASE that holds random records: (bytes, where records begin, end of the last)."""
    log, wrote, table = bytearray(BASE), BASE, dict[Queue, int]()
    starts = []
    while True:
        records = random_batch(rng).records()
        if wrote + len(records) + 8 > BASE + limit:
            break
        starts.append(wrote - BASE)
        wrote, _ = twin_append(
            log, FILE_SIZE, wrote, table, [records], store_timestamp=1000 + len(starts)
        )
    return log[BASE : BASE + FILE_SIZE], starts, wrote - BASE


def judged(data: bytes, position: int) -> int:
    """Where a scan by RocketMQ's rules ends, and by the address that a record must name."""
    while position < len(data):
        found = check_record(data, position)
        if not found.ok or found.size <= 0:
            return position
        (address,) = struct.unpack_from(">q", data, position + 28)
        if address != BASE + position:
            return position
        position += found.size
    return position


def records_in(data: bytes | bytearray, end: int) -> int:
    at = count = 0
    while at < end:
        at += decode_record(data, at).total_size
        count += 1
    return count


@pytest.mark.parametrize("seed", range(5))
def test_a_good_file_is_read_to_its_end(seed: int) -> None:
    data, starts, end = file_of(random.Random(seed))
    count = records_in(data, end)
    newest = 1000 + len(starts)
    assert kernel.scan(data, 0, BASE, True) == (end, count, newest, kernel.NOTHING)
    struct.pack_into(">iI", data, end, FILE_SIZE - end, 0xCBD43194)
    assert kernel.scan(data, 0, BASE, True) == (FILE_SIZE, count, newest, kernel.END_OF_FILE)
    assert kernel.scan(data, starts[-1], BASE, True)[0] == FILE_SIZE
    full = bytes(data[:end])
    assert kernel.scan(full, 0, BASE, True) == (end, count, newest, kernel.FULL)
    assert kernel.scan(full, end, BASE, True) == (end, 0, 0, kernel.FULL)


def test_an_end_of_file_record_must_fill_the_file() -> None:
    data, _, end = file_of(random.Random(1))
    for length in (0, 7, 8, FILE_SIZE - end - 1, FILE_SIZE - end + 1, 2**31 - 1):
        struct.pack_into(">iI", data, end, length, 0xCBD43194)
        assert kernel.scan(data, 0, BASE, True)[::3] == (end, kernel.BAD_LENGTHS)


@pytest.mark.parametrize("version", [1, 2])
def test_a_tail_torn_anywhere_ends_where_rocketmq_ends(version: int) -> None:
    """Zeros follow the cut: what a file holds behind what was written."""
    topic = b"t" * (20 if version == 1 else 130)
    first = encode_record(topic, b"first", physical_offset=BASE)
    start = len(first)
    last = encode_record(
        topic, b"x" * 300, b"TAGS\x01TagA\x02KEYS\x01k\x02", physical_offset=BASE + start
    )
    accepted = []
    for cut in range(len(last) + 1):
        data = (first + last[:cut]).ljust(2000, b"\0")
        position, records, _, _ = kernel.scan(data, 0, BASE, True)
        assert position == judged(data, 0), cut
        assert records == 1 + (position == start + len(last))
        if position != start:
            accepted.append(cut)
    # The body's checksum covers neither topic nor properties: RocketMQ's recovery takes a record
    # whose properties are torn. A cut in front of their length is always found.
    assert accepted == list(range(accepted[0], len(last) + 1))
    assert accepted[0] >= len(last) - len(b"TAGS\x01TagA\x02KEYS\x01k\x02")


def test_a_file_cut_short_ends_before_the_cut() -> None:
    data, _, end = file_of(random.Random(3), 3000)
    for cut in range(end + 1):
        position, _, _, why = kernel.scan(bytes(data[:cut]).ljust(1, b"\0"), 0, BASE, True)
        assert position <= max(cut, 1)
        assert position == judged(bytes(data[:cut]), 0)
        assert why in (kernel.NOTHING, kernel.BAD_LENGTHS, kernel.FULL)


def guarded(data: bytes | bytearray, start: int) -> set[int]:
    """Positions in the record at `start` whose every flipped bit recovery must notice."""
    record = decode_record(data, start)
    body_at = start + 88 + 12 * (len(record.born_host.address) == 16)
    topic_at = body_at + len(record.body) + record.version
    lengths = {*range(body_at - 4, topic_at)}
    lengths |= {topic_at + len(record.topic), topic_at + len(record.topic) + 1}
    return {start + i for i in (*range(12), *range(28, 36))} | lengths


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_end_the_log_where_anything_guards_them(seed: int) -> None:
    rng = random.Random(seed)
    data, _, end = file_of(rng, 4000)
    start = 0
    while start < end:
        total = decode_record(data, start).total_size
        must = guarded(data, start)
        for at in range(start, start + total):
            bad = bytearray(data)
            bad[at] ^= 1 << rng.randrange(8)
            position, _, _, why = kernel.scan(bad, 0, BASE, True)
            assert position in (start, end), at
            if at in must:
                assert position == start, at
            if position == start:
                assert why != kernel.FULL
                assert at in must or at == start + 39
        start += total


def test_a_flipped_body_is_found_only_if_asked_for() -> None:
    data, starts, end = file_of(random.Random(4))
    record = next(r for s in starts for r in [decode_record(data, s)] if len(r.body) > 20)
    at = record.physical_offset - BASE + 110
    data[at] ^= 1
    with pytest.raises(Corrupt):
        decode_record(data, record.physical_offset - BASE)
    position, _, _, why = kernel.scan(data, 0, BASE, True)
    assert (position, why) == (record.physical_offset - BASE, kernel.BAD_CRC)
    assert kernel.scan(data, 0, BASE, False)[0] == end


@pytest.mark.parametrize("place", [-1, 88, 56])
def test_what_cannot_be_decoded_is_found_only_if_asked_for(place: int) -> None:
    """A byte that is not UTF-8 in the properties or in the topic, and a store time that fails the
    record's checksum.
    """
    records = bytearray()
    for _ in range(3):
        at = BASE + len(records)
        pair = encode_properties({"KEYS": "k"})
        crc = place == 56
        records += encode_record(b"topic", b"", pair, physical_offset=at, record_crc=crc)
    size = len(records) // 3
    at = 2 * size - 1 if place == -1 else size + place + (place == 88)
    records[at] ^= 0xFF
    assert kernel.scan(records, 0, BASE, True)[::3] == (3 * size, kernel.FULL)
    found = kernel.scan(records, 0, BASE, True, refuse_unreadable=True)
    assert found[::3] == (size, kernel.UNREADABLE)
    any_time = -(1 << 63)
    assert kernel.find_record(records, size, BASE, any_time)[0] == size
    behind, _ = kernel.find_record(records, size, BASE, any_time, refuse_unreadable=True)
    assert behind == 2 * size


def test_a_record_that_names_another_offset_ends_the_log() -> None:
    data, starts, _ = file_of(random.Random(6))
    struct.pack_into(">q", data, starts[2] + 28, BASE)
    assert kernel.scan(data, 0, BASE, True)[::3] == (starts[2], kernel.BAD_OFFSET)
    assert kernel.scan(data, 0, BASE + FILE_SIZE, True)[::3] == (0, kernel.BAD_OFFSET)


def test_lying_lengths_are_never_followed() -> None:
    data = bytearray(encode_record(b"topic", b"body" * 9, b"a\x01b\x02", physical_offset=BASE))
    size = len(data)
    fields = ((0, 4), (84, 4), (88 + 36, 1), (88 + 36 + 1 + 5, 2))
    for at, width in fields:
        right = data[at : at + width]
        for value in {0, 1, 5, size - 1, size, size + 1, 127, 128, 255, 2**15, 2**31 - 1, 2**31}:
            if value >> (8 * width) or value == int.from_bytes(right, "big"):
                continue
            data[at : at + width] = value.to_bytes(width, "big")
            for padding in (0, 1, 500):
                shown = bytes(data) + bytes(padding)
                assert kernel.scan(shown, 0, BASE, True)[:2] == (0, 0), (at, value)
        data[at : at + width] = right
    assert kernel.scan(data, 0, BASE, True)[0] == size


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_are_no_log(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        data = bytearray(rng.randbytes(rng.randrange(1, 400)))
        if len(data) >= 8 and rng.random() < 0.8:
            struct.pack_into(">iI", data, 0, rng.choice((91, len(data), 8)), 0xDAA320A7)
        assert kernel.scan(data, 0, BASE, True)[:2] == (0, 0)


@pytest.mark.parametrize("what", ["topic", "properties"])
def test_lengths_with_their_sign_bit_set_are_bad(what: str) -> None:
    """A version 1 topic above 127 bytes and properties above 32,767: `i8` and `i16` in the file."""
    good = bytearray(encode_record(b"t" * 127, b"", b"k\x01" + b"v" * 32765, physical_offset=BASE))
    if what == "topic":
        good[88:89] = b"\x80"
        good[89:89] = b"t"
    else:
        good[88 + 128 : 88 + 130] = (32768).to_bytes(2, "big")
        good += b"v"
    good[0:4] = len(good).to_bytes(4, "big")
    assert not check_record(bytes(good)).ok
    assert kernel.scan(good, 0, BASE, True)[::3] == (0, kernel.BAD_LENGTHS)
