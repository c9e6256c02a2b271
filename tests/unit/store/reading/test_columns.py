"""The parsing kernel against the plain Python decoder: whole logs, damaged ones, golden ones."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from array import array
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import golden_stores
from support.fence import Fence
from support.plain_records import encode_blank
from support.strategies import FIELDS, records

from silomq.store.errors import CorruptRange
from silomq.store.reading import _columns
from silomq.store.reading._columns import Columns
from silomq.store.reading.columns import COLUMNS, LogScan, mask_of, schema, to_batch
from silomq.store.record.compression import MAX_BODY_BYTES, Undecodable, decompress
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.properties import decode_properties, encode_properties

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = struct.Struct(">qiq")
SAME = (
    "queue_id", "queue_offset", "physical_offset", "sys_flag", "flag", "body_crc",
    "reconsume_times",
)  # fmt: skip


def twin(data: bytes) -> dict[str, Any]:
    """The row of a record, in plain Python; `properties` as a dict."""
    # Where text is not UTF-8 the strict decoder refuses it: it gets the rest, the text goes beside.
    properties_at = data.rindex(b"|props|") + 7 if b"|props|" in data else None
    if properties_at is None:
        r = decode_record(data, check_crc=False)
        properties = r.properties
    else:
        head = data[: properties_at - 9] + b"\0\0"
        r = decode_record(struct.pack(">i", len(head)) + head[4:], check_crc=False)
        properties = decode_properties(data[properties_at - 7 :], "replace")
    return {
        "topic": r.topic,
        "size": len(data),
        "store_timestamp": r.store_timestamp,
        "born_timestamp": r.born_timestamp,
        "tags": properties.get("TAGS"),
        "keys": [key for key in properties.get("KEYS", "").split(" ") if key],
        "properties": properties,
        "born_host": str(r.born_host),
        "store_host": str(r.store_host),
        "message_id": properties.get("UNIQ_KEY"),
        **{name: getattr(r, name) for name in SAME},
        "body": plain_body(r.body, r.sys_flag),
    }


def plain_body(body: bytes, sys_flag: int) -> bytes | None:
    """The body before it was compressed; None if it cannot be decompressed."""
    try:
        return decompress(body, sys_flag)
    except Undecodable:
        return None


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows in plain Python; times as numbers, they need not be dates."""
    batch.validate(full=True)
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    made = pa.RecordBatch.from_arrays(plain, names=batch.schema.names)
    found: list[dict[str, Any]] = made.to_pylist()
    for row in found:
        if "properties" in row:
            assert len(dict(row["properties"])) == len(row["properties"]), "no name occurs twice"
            row["properties"] = dict(row["properties"])
    return found


def scan_all(data: bytes, base: int = 0, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in LogScan(data, base, **options) for row in rows(batch)]


def placed(parts: list[bytes], base: int) -> bytes:
    """Records one behind the other, each with its place in the log."""
    log = bytearray()
    for part in parts:
        at = len(log)
        log += part
        struct.pack_into(">q", log, at + 28, base + at)
    return bytes(log)


TEXT = st.sampled_from((b"TAGS", b"KEYS", b"UNIQ_KEY", b"a b", b" ", b"\x01", b"\x02", b"\xff"))
PIECES = TEXT | st.sampled_from((b"\xe2\x82", "\u20ac".encode(), b"\xf0\x90", b"\xed\xa0\x80", b""))
BYTES = st.lists(PIECES | st.binary(max_size=3), max_size=20).map(b"".join)


@st.composite
def odd_records(draw: st.DrawFn) -> bytes:
    """Records with any bytes for properties, marked so that the twin finds them."""
    fields = draw(FIELDS)
    return encode_record(b"t", b"body", b"|props|" + draw(BYTES), **fields)


def drawn(some: list[bytes], base: int) -> tuple[bytes, list[bytes]]:
    log = placed(some, base)
    at, found = 0, []
    for data in some:
        found.append(log[at : at + len(data)])
        at += len(data)
    return log, found


@given(
    st.lists(records() | odd_records(), max_size=12),
    st.sampled_from((0, 1 << 40)),
    st.integers(1, 5),
    st.integers(1, 1000),
)
def test_a_log_becomes_the_rows_of_its_records(
    some: list[bytes], base: int, max_rows: int, max_bytes: int
) -> None:
    log, found = drawn(some, base)
    expected = [twin(data) for data in found]
    assert scan_all(log, base) == expected
    assert scan_all(log + encode_blank(500) + b"?" * 492, base) == expected
    assert scan_all(log + bytes(100), base) == expected
    batches = list(LogScan(log, base, max_rows=max_rows, max_bytes=max_bytes))
    assert [row for batch in batches for row in rows(batch)] == expected
    for batch in batches:
        assert 1 <= batch.num_rows <= max_rows
        assert batch.num_rows == 1 or sum(batch["size"].to_pylist()) <= max_bytes


@given(
    st.lists(records() | odd_records(), min_size=1, max_size=6),
    st.lists(st.sampled_from(COLUMNS), unique=True),
)
def test_only_the_columns_that_were_asked_for(some: list[bytes], names: list[str]) -> None:
    log, found = drawn(some, 0)
    batches = list(LogScan(log, 0, columns=names))
    assert all(batch.schema == schema(names) for batch in batches)
    expected = [{name: twin(data)[name] for name in names} for data in found]
    assert [row for batch in batches for row in rows(batch)] == expected or not names
    assert sum(batch.num_rows for batch in batches) == len(found) or not names


@given(
    st.lists(records() | odd_records(), min_size=1, max_size=8),
    st.sampled_from((1, 1, 1, 40)),  # with 40 they are more than what is worked on at once
    st.data(),
)
def test_entries_of_a_queue(some: list[bytes], times: int, data: st.DataObject) -> None:
    log, found = drawn(some * times, 1000)
    codes = [data.draw(st.integers(-2, 2)) for _ in some] * times
    entries, at = [], 1000
    for one, code in zip(found, codes, strict=True):
        entries.append((at, len(one), code))
        at += len(one)
    wanted = data.draw(st.none() | st.lists(st.integers(-2, 2), unique=True).map(sorted))
    limit = data.draw(st.integers(1, 9)) * times
    filled = Columns(mask_of(COLUMNS))
    packed = b"".join(ENTRY.pack(*entry) for entry in entries)
    chosen = None if wanted is None else array("i", wanted)
    taken, examined, _ = filled.take(log, 1000, packed, 0, limit, chosen, 1 << 20, False)
    expected = [i for i, entry in enumerate(entries) if wanted is None or entry[2] in wanted]
    assert taken == filled.rows == len(expected[:limit])
    assert rows(to_batch(filled)) == [twin(found[i]) for i in expected[:limit]]
    assert examined == (len(entries) if len(expected) < limit else expected[limit - 1] + 1)


@pytest.mark.parametrize("offset", [5, 12, 7, 0, 1, 2, 70, 127])
@pytest.mark.parametrize("last", [False, True])
def test_a_message_of_light_queues_is_checked_for_each_offset(offset: int, last: bool) -> None:
    """RocketMQ's light queues (LMQ): the message names its offset in each of them."""
    pairs = {"a": "b", "INNER_MULTI_QUEUE_OFFSET": "12,7"}
    properties = encode_properties(pairs if last else dict(reversed(pairs.items())))
    log = encode_record(b"t", b"body", properties, queue_offset=5, physical_offset=1000)
    entry = ENTRY.pack(1000, len(log), 0)
    filled = Columns(mask_of(COLUMNS))
    taken = filled.take(log, 1000, entry, offset, 10, None, 1 << 20, check=True)
    assert taken == ((1, 1, 0) if offset in {5, 12, 7} else (0, 0, _columns.DAMAGED))


def test_entries_are_checked_when_asked() -> None:
    log = encode_record(b"t", b"body", queue_offset=5, physical_offset=1000)
    entry = ENTRY.pack(1000, len(log), 0)

    def take(log: bytes, first: int, *, check: bool) -> tuple[int, int, int]:
        filled = Columns(mask_of(COLUMNS))
        return filled.take(log, 1000, entry, first, 10, None, 1 << 20, check)

    assert take(log, 5, check=True) == (1, 1, 0)
    assert take(log, 4, check=True) == (0, 0, _columns.DAMAGED)
    assert take(log.replace(b"body", b"bodY"), 5, check=True) == (0, 0, _columns.DAMAGED)
    assert take(log.replace(b"body", b"bodY"), 4, check=False) == (1, 1, 0)
    assert take(log[:4] + b"?" + log[5:], 5, check=False) == (0, 0, _columns.DAMAGED)


@pytest.mark.parametrize("bad", [0, 1, 127, 128, 129, 299])
@pytest.mark.parametrize("names", [COLUMNS, ("body",), ("tags",)])
def test_damage_ends_a_batch_behind_what_is_good(bad: int, names: tuple[str, ...]) -> None:
    log, starts = sample(300, 0)
    log = log[: starts[bad] + 4] + b"?" + log[starts[bad] + 5 :]
    packed = b"".join(ENTRY.pack(a, b - a, 0) for a, b in itertools.pairwise(starts))
    filled = Columns(mask_of(names))
    found = filled.take(log, 0, packed, 0, 1000, None, 1 << 20, False)
    assert found == (bad, bad, _columns.DAMAGED)
    batch = to_batch(filled, names)
    assert batch.num_rows == bad
    assert rows(batch) == [
        {n: twin(log[a:b])[n] for n in names} for a, b in itertools.pairwise(starts[: bad + 1])
    ]


def sample(count: int, base: int) -> tuple[bytes, list[int]]:
    """A log of records, and the offsets of their first bytes and of the end."""
    some = [encode_record(b"topic", b"%04d" % i * 10, b"TAGS\x01x\x02") for i in range(count)]
    log = placed(some, base)
    return log, [base + len(some[0]) * i for i in range(count + 1)]


def test_damage_is_named_or_skipped_and_noted() -> None:
    log, at = sample(20, 4096)
    bad = bytearray(log)
    bad[at[7] - 4096 + 100] ^= 1  # a body
    bad[at[11] - 4096 : at[13] - 4096] = bytes(at[13] - at[11])
    found: list[Any] = []
    scan = LogScan(bytes(bad), 4096, check_crc=True)
    batches = iter(scan)
    found += next(batches)["physical_offset"].to_pylist()
    with pytest.raises(CorruptRange) as error:
        next(batches)
    assert found == at[:7]
    assert (error.value.start, error.value.end) == (at[7], at[8])
    assert scan.position == at[7]
    with pytest.raises(CorruptRange) as error:
        list(LogScan(bytes(bad), 4096))
    assert (error.value.start, error.value.end) == (at[11], at[13])
    skipping = LogScan(bytes(bad), 4096, check_crc=True, skip_damage=True)
    rest = [place for batch in skipping for place in batch["physical_offset"].to_pylist()]
    assert rest == [*at[:7], *at[8:11], *at[13:20]]
    assert skipping.damage == [(at[7], at[8]), (at[11], at[13])]
    torn = LogScan(log + b"\0\0?", 4096, skip_damage=True)
    assert sum(batch.num_rows for batch in torn) == 20
    assert torn.damage == [(at[20], at[20] + 3)]


def test_readers_share_a_file_without_gap_or_overlap() -> None:
    log, at = sample(50, 1 << 30)
    log += encode_blank(64) + bytes(56)
    for step in (1, 37, 100, 1000, 10_000):
        found: list[int] = []
        for start in range(1 << 30, (1 << 30) + len(log), step):
            scan = LogScan(log, 1 << 30, start, start + step, resynchronise=True)
            found += [place for batch in scan for place in batch["physical_offset"].to_pylist()]
        assert found == at[:50]


def test_bad_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="no column 'bodies'; there are: topic, queue_id"):
        LogScan(b"", 0, columns=["bodies"])
    with pytest.raises(ValueError, match="start 5 is not in the file's offsets 0 to 0"):
        LogScan(b"", 0, 5)
    with pytest.raises(ValueError, match="at least one"):
        LogScan(b"", 0, max_rows=0)


def test_damage_never_crashes() -> None:
    rng = random.Random(5)
    log, _ = sample(8, 0)
    fence = Fence(8192)
    raised = 0
    for _ in range(10_000):
        data = bytearray(log)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(8) * (len(log) // 8) + rng.choice((rng.randrange(8), 84, 40, 36))
            at += rng.randrange(60)
            data[at % len(log)] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        data = data[: rng.choice((len(data), rng.randrange(len(data) + 1)))]
        scan = LogScan(fence.hold(bytes(data)), 0, skip_damage=rng.random() < 0.5)
        try:
            for batch in scan:
                batch.validate(full=True)
        except CorruptRange:
            raised += 1
    assert raised > 1000


@pytest.mark.parametrize("name", golden_stores.NAMES)
def test_golden_stores_are_read_as_the_decoder_reads_them(name: str, tmp_path: Path) -> None:
    store = golden_stores.unpack(name, tmp_path)
    wanted = {m["commitLogOffset"]: m for m in store.of("msg")}
    end = store.of("store")[0]["maxPhyOffset"]
    found: list[dict[str, Any]] = []
    for base, data in store.log_files():
        if base < end:
            found += scan_all(data, base, stop=end, check_crc=True, raw_bodies=True)
    assert sorted(wanted) == [row["physical_offset"] for row in found]
    for row in found:
        m = wanted[row["physical_offset"]]
        assert (row["topic"], row["queue_id"], row["queue_offset"], row["size"]) == (
            m["topic"], m["queueId"], m["queueOffset"], m["storeSize"]
        )  # fmt: skip
        assert (row["born_host"], row["store_host"]) == (m["bornHost"], m["storeHost"])
        assert (row["properties"], row["tags"]) == (m["properties"], m["tags"])
        assert (row["store_timestamp"], row["born_timestamp"]) == (
            m["storeTimestamp"], m["bornTimestamp"]
        )  # fmt: skip
        assert (len(row["body"]), row["body_crc"]) == (m["bodyLen"], m["bodyCRC"])


def compressed_log(*bodies: bytes) -> bytes:
    """Records with these bodies, which claim to be zlib."""
    return placed([encode_record(b"t", body, sys_flag=0x301) for body in bodies], 0)


def test_a_body_that_does_not_decompress_is_null_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = [
        encode_record(b"t", b"plain"),
        encode_record(b"t", zlib.compress(b"packed"), sys_flag=0x301),
        encode_record(b"t", b"damaged", sys_flag=0x301),
        encode_record(b"t", b"", sys_flag=0x301),
        encode_record(b"t", b"unknown", sys_flag=0x701),
        encode_record(b"t", b"plain again"),
    ]
    log = placed(parts, 0)
    wanted = [b"plain", b"packed", None, b"", None, b"plain again"]
    for limit in (1, 2, 100):
        batches = list(LogScan(log, 0, columns=("body", "flag"), max_rows=limit))
        assert [row["body"] for batch in batches for row in rows(batch)] == wanted
    bad = sum(len(part) for part in parts[:2])
    assert f"log offset {bad} is null here: the body is no zlib stream" in caplog.text
    assert "compression 7, which is unknown" in caplog.text
    stored = [row["body"] for row in scan_all(log, raw_bodies=True)]
    assert stored[2:5] == [b"damaged", b"", b"unknown"]
    assert all(row["size"] for row in scan_all(log, columns=("size",))), "bodies are not touched"


def test_a_batch_is_limited_by_decompressed_bodies() -> None:
    sizes = (10_000, 50_000, 10_000, 1_000_000, 10, 10)
    log = compressed_log(*(zlib.compress(bytes(size)) for size in sizes))
    batches = list(LogScan(log, 0, columns=("body",), max_bytes=100_000))
    found = [[len(body.as_py()) for body in batch["body"]] for batch in batches]
    assert found == [[10_000, 50_000, 10_000], [1_000_000], [10, 10]]


def test_too_long_a_body_is_null() -> None:
    log = compressed_log(zlib.compress(bytes(MAX_BODY_BYTES + 1)), zlib.compress(b"next"))
    assert [row["body"] for row in scan_all(log, columns=("body",))] == [None, b"next"]
