"""`verify` finds golden stores sound, and names what was damaged."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from support import golden_stores, offline_stores

from silomq.store.commitlog.log import CommitLog
from silomq.store.commitlog.seals import Seals, seal_of
from silomq.store.disk.paths import StoreFolders
from silomq.tools.raw.files import BadInput
from silomq.tools.verify.verify import Report, verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = 20_260_101


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> golden_stores.Golden:
    return offline_stores.unpack("normal", tmp_path_factory.mktemp("golden"))


@pytest.fixture
def copy(normal: golden_stores.Golden, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "store"
    shutil.copytree(normal.path, path)
    yield path
    shutil.rmtree(path)


def check(path: Path, workers: int | None = None) -> Report:
    return verify(path, offline_stores.settings(), workers=workers)


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("name", golden_stores.NAMES)
def test_golden_stores_are_sound(name: str, tmp_path: Path) -> None:
    store = offline_stores.unpack(name, tmp_path)
    before = offline_stores.state(store.path)
    report = check(store.path)
    assert report.findings == []
    assert report.counts["records"] == len(store.of("msg"))
    assert offline_stores.state(store.path) == before


def test_with_processes(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silomq.tools.verify.verify._SMALL_BYTES", 0)
    flip(copy / "commitlog" / "00000000000000065536", 4)
    alone, together = check(copy, workers=1), check(copy, workers=2)
    assert alone.findings
    assert together.findings == alone.findings
    assert together.counts == alone.counts


def test_flipped_bodies_are_named(normal: golden_stores.Golden, copy: Path) -> None:
    rng = random.Random(SEED)
    with_body = [m for m in normal.of("msg") if m["bodyLen"]]
    chosen = rng.sample(with_body, 40)
    for message in chosen:
        offset = message["commitLogOffset"]
        base = offset // golden_stores.LOG_FILE_SIZE * golden_stores.LOG_FILE_SIZE
        at = offset - base + 88 + rng.randrange(message["bodyLen"])
        flip(copy / "commitlog" / f"{base:020d}", at, rng.randrange(8))
    report = check(copy)
    named = {f.offset - 88 for f in report.findings if "bodyCRC" in f.what}
    named |= {f.offset for f in report.findings if "bodyCRC" in f.what}
    assert {m["commitLogOffset"] for m in chosen} <= named


# Of the fixed part: lengths, magic, CRC, queue, offsets, and the body's length.
PLACES = (0, 2, 3, 4, 7, 8, 11, 12, 15, 20, 27, 28, 35, 84, 87)


@pytest.mark.parametrize("place", PLACES)
def test_flipped_heads_are_named(normal: golden_stores.Golden, copy: Path, place: int) -> None:
    rng = random.Random(SEED + place)
    message = rng.choice([m for m in normal.of("msg") if m["bodyLen"] and m["inCq"]])
    offset = message["commitLogOffset"]
    base = offset // golden_stores.LOG_FILE_SIZE * golden_stores.LOG_FILE_SIZE
    file = copy / "commitlog" / f"{base:020d}"
    flip(file, offset - base + place, rng.randrange(8))
    end = offset + message["storeSize"]
    paths = {f.path for f in check(copy).findings if offset <= f.offset < end}
    assert str(file) in paths


def test_flipped_queue_entries_are_named(normal: golden_stores.Golden, copy: Path) -> None:
    rng = random.Random(SEED)
    for message in rng.sample([m for m in normal.of("msg") if m["inCq"]], 8):
        position = message["queueOffset"] * 20
        base = position // golden_stores.QUEUE_FILE_SIZE * golden_stores.QUEUE_FILE_SIZE
        folder = copy / "consumequeue" / message["topic"] / str(message["queueId"])
        file = folder / f"{base:020d}"
        at = position - base + rng.randrange(20)
        bit = rng.randrange(8)
        flip(file, at, bit)
        found = check(copy).findings
        assert any(f.path == str(file) and f.offset == position - base for f in found)
        flip(file, at, bit)
    assert check(copy).sound


def test_a_queue_file_that_was_being_made_is_no_queue(copy: Path) -> None:
    (copy / "consumequeue" / "silomq-new").write_bytes(bytes(100))
    assert check(copy).sound


def test_a_flipped_index_is_named(copy: Path) -> None:
    rng = random.Random(SEED)
    slots = 40 + 4 * golden_stores.INDEX_SLOTS
    file = sorted((copy / "index").iterdir())[1]
    for at in [*range(0, 40, 7), *rng.sample(range(40, slots), 3)] + [
        slots + 20 + rng.randrange(20 * 1998) for _ in range(5)
    ]:
        flip(file, at)
        assert any(f.path == str(file) for f in check(copy).findings), at
        flip(file, at)


def test_one_flipped_body_is_one_finding(normal: golden_stores.Golden, copy: Path) -> None:
    message = [m for m in normal.of("msg") if m["bodyLen"]][-3]
    offset = message["commitLogOffset"]
    base = offset // golden_stores.LOG_FILE_SIZE * golden_stores.LOG_FILE_SIZE
    flip(copy / "commitlog" / f"{base:020d}", offset - base + 88)
    assert [f.offset for f in check(copy).findings] == [offset]


@pytest.mark.parametrize("at", [0, 4, 11, 20, 100, 4095])
def test_a_flipped_checkpoint_is_named(copy: Path, at: int) -> None:
    flip(copy / "checkpoint", at)
    assert any(f.path == str(copy / "checkpoint") for f in check(copy).findings)


def test_a_sealed_file_that_changed(copy: Path) -> None:
    """Nothing but the seal covers what lies behind a file's end-of-file record."""
    folders = StoreFolders(copy, create=True)
    seals, log = Seals(folders), CommitLog(folders, golden_stores.LOG_FILE_SIZE)
    for base in log.bases()[:3]:
        seals.write(base, seal_of(log, base))
    assert check(copy).findings == []
    base = log.bases()[1]
    flip(copy / "commitlog" / f"{base:020d}", golden_stores.LOG_FILE_SIZE - 1)
    (found,) = check(copy).findings
    assert found.offset == base
    assert "crc32c" in found.what
    (copy / "silomq" / "seals" / f"{base:020d}.json").write_text("{")
    assert ["not a seal" in f.what for f in check(copy).findings] == [True]


def test_a_lost_queue_is_named(copy: Path) -> None:
    shutil.rmtree(copy / "consumequeue" / "orders-v2" / "0")
    found = check(copy).findings
    assert found
    assert all("orders-v2/0" in f.what or "more" in f.what for f in found)


def test_a_lost_log_file_is_named(copy: Path) -> None:
    (copy / "commitlog" / "00000000000000131072").unlink()
    found = check(copy).findings
    assert any("the file before it begins at 65536" in f.what for f in found)


def test_bad_json_is_named(copy: Path) -> None:
    (copy / "config" / "delayOffset.json").write_text('{"offsetTable":{1:')
    assert [f.path for f in check(copy).findings] == [str(copy / "config" / "delayOffset.json")]


@pytest.mark.parametrize(
    ("name", "size", "why"),
    [
        ("commitlog/00000000000000065536", 1000, "has 1000 bytes"),
        ("consumequeue/a/7/00000000000000002000", 0, "has 0 bytes"),
        ("checkpoint", 12, "has 12 bytes"),
        ("commitlog/notes.txt", 5, "none of the store's files"),
        ("index/notes.txt", 5, "none of the store's files"),
        ("consumequeue/notes.txt", 5, "is not a folder"),
        ("consumequeue/a/7/notes", 5, "none of the store's files"),
    ],
)
def test_bad_input_is_refused(copy: Path, name: str, size: int, why: str) -> None:
    (copy / name).write_bytes(bytes(size))
    before = offline_stores.state(copy)
    with pytest.raises(BadInput, match=why):
        check(copy)
    assert offline_stores.state(copy) == before
