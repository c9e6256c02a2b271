"""What lies behind the ends after a power cut goes; after a crash of processes it stays."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.starts import FILE_SIZE, check, lose_power, made, start
from support.store_files import QUEUE_FILE, Store, batches

from silomq.store.commitlog import _scan
from silomq.store.delay.delays import Progress, ProgressFile
from silomq.store.disk import files as disk
from silomq.store.disk import sparse
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.errors import Corrupt
from silomq.store.record.format import encode_record
from silomq.store.recovery import durable_progress

if TYPE_CHECKING:
    from pathlib import Path


def break_record(store: Store, path: Path, number: int) -> None:
    at = store.ends[number]
    file = path / "commitlog" / file_name(at // FILE_SIZE * FILE_SIZE)
    data = bytearray(file.read_bytes())
    data[at % FILE_SIZE + 4] ^= 1
    file.write_bytes(data)


def shortened(path: Path, store: Store, seed: int, count: int) -> None:
    """Makes `store` expect only its first `count` batches."""
    kept = Store(path / "kept", batches(seed, 60)[:count], file_size=FILE_SIZE)
    store.ends, store.next = kept.ends, kept.next
    store.data = kept.data


@pytest.mark.parametrize("stops", [(), (20,)])
def test_records_behind_the_first_lost_one_are_cut(stops: tuple[int, ...], tmp_path: Path) -> None:
    store = made(tmp_path, 10, stops)
    assert len(store.data) >= 3 * FILE_SIZE
    break_record(store, tmp_path, 25)
    lose_power(tmp_path)
    report = start(store, tmp_path)
    assert report.log_end == store.ends[25]
    shortened(tmp_path, store, 10, 25)
    check(store)
    log = b"".join(f.read_bytes() for f in sorted((tmp_path / "commitlog").iterdir()))
    assert not any(log[store.ends[25] :])
    assert report.cut_bytes > 0
    assert all((tmp_path / name).is_file() for name in report.kept_in)


def test_in_the_same_boot_nothing_is_cut(tmp_path: Path) -> None:
    store = made(tmp_path, 10, ())
    start(store, tmp_path)
    (tmp_path / "silomq" / "progress").unlink(missing_ok=True)
    break_record(store, tmp_path, 25)
    before = {file.name: file.read_bytes() for file in (tmp_path / "commitlog").iterdir()}
    with pytest.raises(Corrupt, match="good records go on"):
        start(store, tmp_path)
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "commitlog").iterdir()}


def test_a_clean_mark_is_taken_back_before_anything_is_appended(tmp_path: Path) -> None:
    store = made(tmp_path, 3, (20,))
    found = durable_progress.read(store.folders.ours)
    assert found is not None
    durable_progress.ProgressFile(store.folders.ours).write(replace(found, clean=True))
    report = start(store, tmp_path)
    assert report.clean
    again = durable_progress.read(store.folders.ours)
    assert again is not None
    assert again == replace(found, clean=False)
    check(store)


def test_queue_entries_behind_the_end_go(tmp_path: Path) -> None:
    """Of entries that were dispatched, and whose records were lost, nothing is counted later."""
    store = made(tmp_path, 11, ())
    ghost = struct.pack(">qiq", store.ends[-1] + 1000, 100, 0)
    (topic, queue_id), count = max(store.next.items(), key=lambda item: item[1])
    folder = tmp_path / "consumequeue" / topic / str(queue_id)
    file = folder / file_name(count * 20 // QUEUE_FILE * QUEUE_FILE)
    data = bytearray(file.read_bytes())
    place = count * 20 % QUEUE_FILE + 40
    data[place : place + 20] = ghost
    file.write_bytes(data)
    later = folder / file_name(int(file.name) + QUEUE_FILE)
    later.write_bytes(ghost.ljust(QUEUE_FILE, b"\0"))
    lose_power(tmp_path)
    start(store, tmp_path)
    check(store)
    assert not later.exists()


def test_data_behind_is_what_is_not_zero(tmp_path: Path) -> None:
    rng = random.Random(1)
    folders = StoreFolders(tmp_path, create=True)
    size = 3 << 20
    data = bytearray(size)
    for at in rng.sample(range(size), 9):
        data[at] = 1
    with folders.ours.file("x", write=True, create=True) as fd:
        disk.allocate(fd, 0, size)
        for at in range(size):
            if data[at]:
                disk.write_at(fd, b"\1", at)
        for start_at in (0, 1, 4095, 70_000, size - 1, size):
            found = bytearray(size)
            for at, part in sparse.data_behind(fd, start_at):
                assert at >= start_at
                found[at : at + len(part)] = part
            assert found[start_at:] == data[start_at:]
        sparse.clear_behind(fd, 1 << 20)
        assert disk.read_at(fd, size, 0) == bytes(data[: 1 << 20]).ljust(size, b"\0")


VALUES = (b"", b"TAGS\x01a\x02", b"TAGS\x01a", b"k\x01" + b"\0" * 400 + b"x\x02", b"K\x01\xff\x02")


@pytest.mark.parametrize("body", [b"", b"x" * 100, bytes(2000)])
@pytest.mark.parametrize("properties", VALUES, ids=range(len(VALUES)))
def test_what_a_writer_may_write_is_not_torn(body: bytes, properties: bytes) -> None:
    """NUL bytes too are a user's to send, in a body or a property."""
    for topic in (b"a", b"%RETRY%group", b"x" * 127):
        record = encode_record(topic, body, properties=properties)
        for start_at in range(0, 1024, 60):
            record = with_offset(record, start_at)
            data = bytes(start_at) + record + bytes(100)
            assert _scan.scan(data, start_at, 0, True, True)[1] == 1


def with_offset(record: bytes, offset: int) -> bytes:
    return record[:28] + offset.to_bytes(8, "big") + record[36:]


@pytest.mark.parametrize("size", [1, 30, 600, 3000])
def test_a_record_that_lacks_a_sector_is_never_taken(size: int) -> None:
    """Whichever 512 bytes of the file are zeros: the record is refused, or it is the same."""
    rng = random.Random(size)
    for body in (b"", b"b" * 40, rng.randbytes(900)):
        properties = b"KEY\x01" + b"v" * size + b"\x02"
        for start_at in range(0, 600, 23):
            record = with_offset(encode_record(b"topic", body, properties=properties), start_at)
            whole = bytes(start_at) + record + bytes(1024)
            for sector in range(0, start_at + len(record), 512):
                data = bytearray(whole)
                data[sector : sector + 512] = bytes(512)
                if data != whole:
                    assert _scan.scan(data, start_at, 0, True, True)[1] == 0, (start_at, sector)


@pytest.mark.parametrize("boots", [False, True])
def test_delayed_messages_go_on_from_durable_progress_in_another_boot(
    *, boots: bool, tmp_path: Path
) -> None:
    store = made(tmp_path, 10, ())
    start(store, tmp_path)
    durable, newer = Progress(10, 1), Progress(20, 2)
    file = ProgressFile(store.folders.ours)
    file.make_durable(durable)
    file.publish(newer)
    if boots:
        lose_power(tmp_path)
    start(store, tmp_path)
    assert ProgressFile(store.folders.ours).newest(100) == (durable if boots else newer)
