"""Bodies as Arrow's views: the rows of the copying form, without a copy of a body."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import struct
import subprocess
import zlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.harness import PYTHON

from silomq.shm._memory import Mapping
from silomq.store.disk import files as disk
from silomq.store.reading._columns import VIEW_END, Columns
from silomq.store.reading.columns import (
    BodyForm,
    filter_rows,
    mask_of,
    new_columns,
    schema,
    to_batch,
)
from silomq.store.record.format import encode_record

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = struct.Struct(">qiq")
NAMES = ("body", "size")
#: Up to 12 bytes lie in the view itself.
BODIES = st.binary(max_size=16) | st.binary(min_size=100, max_size=300)
PACKED = BODIES.map(zlib.compress) | st.just(b"damaged") | st.just(b"")


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, bytes, int]:
    """A log, the queue entries of its records, and how many these are."""
    some = draw(st.lists(st.tuples(st.booleans(), BODIES, PACKED), min_size=1, max_size=12))
    records = [
        encode_record(b"t", packed, sys_flag=0x301) if is_packed else encode_record(b"t", body)
        for is_packed, body, packed in some
    ]
    at, entries = 0, b""
    for record in records:
        entries += ENTRY.pack(at, len(record), 0)
        at += len(record)
    return b"".join(records), entries, len(records)


def filled_from(parts: list[tuple[bytes, bytes, int]], form: BodyForm) -> pa.RecordBatch:
    columns = new_columns(NAMES, form)
    for log, entries, count in parts:
        assert columns.take(log, 0, entries, 0, 1 << 20, None, 1 << 28, False)[0] == count
    return to_batch(columns, NAMES)


@given(st.lists(logs(), min_size=1, max_size=3), st.booleans(), st.data())
def test_views_show_what_copies_hold(
    parts: list[tuple[bytes, bytes, int]], raw: bool, data: st.DataObject
) -> None:
    # Two queues in turn: their records lie in the same files.
    order = data.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=6))
    form = BodyForm.RAW if raw else BodyForm.COPIES
    copies, views = (filled_from(order, f) for f in (form, form | BodyForm.VIEWS))
    views.validate(full=True)
    assert views.schema == schema(NAMES, BodyForm.VIEWS)
    assert views.to_pylist() == copies.to_pylist()
    assert views["body"].null_count == copies["body"].null_count
    sources = views["body"].buffers()[3:]
    assert len(sources) == len({id(log) for log, _, _ in order}), "each log is one buffer"
    keep = data.draw(st.lists(st.booleans(), min_size=len(copies), max_size=len(copies)))
    some = filter_rows(views, keep)
    some.validate(full=True)
    assert some.to_pylist() == filter_rows(copies, keep).to_pylist()


def test_a_scan_gives_views_too() -> None:
    records = [encode_record(b"t", b"%d" % i * 20) for i in range(5)]
    log, at = b"", []
    for record in records:
        at.append(len(log))
        log += record[:28] + struct.pack(">q", len(log)) + record[36:]
    columns = Columns(mask_of(("body",)), views=True)
    assert columns.scan(log, 0, 0, len(log), 100, 1 << 20, False)[0] == len(log)
    assert to_batch(columns, ("body",))["body"].to_pylist() == [b"%d" % i * 20 for i in range(5)]


def test_bodies_stay_where_they_are_and_keep_the_mapping(tmp_path: Path) -> None:
    log = encode_record(b"t", b"x" * 1000).ljust(4096, b"\0")
    path = tmp_path / "log"
    path.write_bytes(log)
    fd = os.open(path, os.O_RDWR)
    mapping = disk.map_file(fd, 0, 4096, writable=True)
    os.close(fd)
    path.unlink()
    batch = batch_of(mapping, log)
    body = batch["body"]
    del batch
    with memoryview(mapping) as view:
        view[log.index(b"xxx")] = ord("y")
    assert body[0].as_py() == b"y" + b"x" * 999, "the array shows the file itself"
    with pytest.raises(BufferError):
        mapping.close()
    del body
    gc.collect()
    mapping.close()


def batch_of(mapping: Mapping, log: bytes) -> pa.RecordBatch:
    size = struct.unpack_from(">i", log)[0]
    columns = new_columns(("body",), BodyForm.VIEWS)
    columns.take(mapping, 0, ENTRY.pack(0, size, 0), 0, 1, None, 1 << 20, False)
    return to_batch(columns, ("body",))


def test_memory_that_views_do_not_reach_is_refused() -> None:
    with mmap.mmap(-1, VIEW_END + 4097) as memory:
        columns = Columns(mask_of(("body",)), views=True)
        with pytest.raises(ValueError, match="views reach"):
            columns.scan(memory, 0, 0, 1, 1, 1, False)
        assert columns.rows == 0
        # The columns still work, with memory that is small enough.
        log = encode_record(b"t", b"x" * 20)
        columns.take(log, 0, ENTRY.pack(0, len(log), 0), 0, 1, None, 100, False)
        assert to_batch(columns, ("body",))["body"].to_pylist() == [b"x" * 20]


def test_an_old_pyarrow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "__version__", "18.1.0")
    with pytest.raises(ImportError, match="pyarrow 19 or newer, this is 18"):
        new_columns(("body",), BodyForm.VIEWS)
    new_columns(("body",), BodyForm.COPIES)


#: A body begins 12 bytes before a page that is made unreadable before a library uses the batch. So
#: the library may look at a body's first bytes, as for a prefix, but not copy it.
_PAGE, _BODY, _COUNT = 4096, 5000, 64
_STRIDE = 3 * _PAGE
_READER = f"""
import ctypes, mmap, sys
import duckdb, polars
from silomq.store.reading.columns import BodyForm, new_columns, to_batch

entries, record = map(bytes.fromhex, sys.argv[2:4])
before = {_PAGE} - 12 - record.index(b"xxx")
memory = mmap.mmap(-1, {_COUNT * _STRIDE})
for i in range({_COUNT}):
    at = i * {_STRIDE} + before
    memory[at : at + len(record)] = record
columns = new_columns(("body",), BodyForm.VIEWS)
assert columns.take(memory, -before, entries, 0, 1000, None, 1 << 28, False)[0] == {_COUNT}
batch = to_batch(columns, ("body",))
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
for i in range({_COUNT}):
    page = ctypes.c_void_p(address + i * {_STRIDE} + {_PAGE})
    assert libc.mprotect(page, {_PAGE}, 0) == 0
match sys.argv[1]:
    case "polars":
        print(polars.from_arrow(batch).select(polars.col("body").bin.size().sum()).item())
    case "duckdb":
        print(duckdb.sql("select sum(octet_length(body)) from batch").fetchall()[0][0])
    case "copy":
        print(len(batch["body"].cast("binary")))
"""


def read_in_child(how: str) -> subprocess.CompletedProcess[str]:
    record = encode_record(b"t", b"x" * _BODY)
    entries = b"".join(ENTRY.pack(i * _STRIDE, len(record), 0) for i in range(_COUNT))
    command = [*PYTHON, "-c", _READER, how, entries.hex(), record.hex()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_libraries_take_the_views_without_a_copy(library: str) -> None:
    done = read_in_child(library)
    assert (done.returncode, done.stdout.strip()) == (0, str(_COUNT * _BODY)), done.stderr


def test_a_library_that_copies_would_be_found() -> None:
    assert read_in_child("copy").returncode == -signal.SIGSEGV
