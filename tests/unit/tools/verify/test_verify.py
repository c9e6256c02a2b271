"""`verify` finds golden stores sound, and names what was damaged."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import crc32c
import pytest
from support import golden_stores, offline_stores, plain_verify

from silomq.store.commitlog.log import CommitLog
from silomq.store.commitlog.seals import Seals, seal_of
from silomq.store.consumequeue.queue import ENTRY
from silomq.store.disk.paths import StoreFolders
from silomq.store.record.format import encode_record
from silomq.store.record.properties import encode_properties
from silomq.tools.raw.files import BadInput
from silomq.tools.verify.findings import OTHER_DELAYS
from silomq.tools.verify.seals import joined_crc
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


def test_entries_that_lead_to_another_topics_records_are_named(copy: Path) -> None:
    """Also if queue id and queue offset are the same: here a queue lies in two topics' folders."""
    shutil.copytree(
        copy / "consumequeue" / "orders-v2" / "0", copy / "consumequeue" / "other" / "0"
    )
    found = check(copy).findings
    assert "number 0 of queue 0 of topic orders-v2" in found[0].what
    assert {finding.path.split("/")[-3] for finding in found} == {"other"}
    assert found == plain_verify.verify(copy, offline_stores.settings()).findings


def test_a_queue_file_that_was_being_made_is_no_queue(copy: Path) -> None:
    (copy / "consumequeue" / "silomq-new").write_bytes(bytes(100))
    assert check(copy).sound


def test_a_flipped_index_is_named(copy: Path) -> None:
    rng = random.Random(SEED)
    slots = 40 + 4 * golden_stores.INDEX_SLOTS
    file = sorted((copy / "index").iterdir())[1]
    # Of the count of slots its high half: any number between used slots and entries is right.
    for at in [*range(0, 34, 7), 33, 37, *rng.sample(range(40, slots), 3)] + [
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


def test_an_index_file_that_two_releases_wrote_is_sound(copy: Path) -> None:
    """One release counts entries as used slots, another one slots: together something between."""
    for file in sorted((copy / "index").iterdir()):
        data = bytearray(file.read_bytes())
        slots = int.from_bytes(data[32:36], "big")
        used = len([at for at in range(40, 40 + 4 * 500, 4) if any(data[at : at + 4])])
        assert used < slots
        for count, sound in ((used, True), ((used + slots) // 2, True), (slots + 1, False)):
            data[32:36] = count.to_bytes(4, "big")
            file.write_bytes(data)
            assert check(copy).sound == sound
        data[32:36] = slots.to_bytes(4, "big")
        file.write_bytes(data)


def test_delays_of_other_levels_are_counted(normal: golden_stores.Golden, copy: Path) -> None:
    """A broker has levels of its own. What no level can explain is a finding."""
    message = next(m for m in normal.of("msg") if m["topic"] == "SCHEDULE_TOPIC_XXXX" and m["inCq"])
    folder = copy / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / str(message["queueId"])
    file, at = folder / f"{0:020d}", message["queueOffset"] * 20 + 12
    data = bytearray(file.read_bytes())
    due = int.from_bytes(data[at : at + 8], "big")
    for ms, sound in ((86_400_000, True), (1, False), (-2 * 86_400_000, False)):
        data[at : at + 8] = (due + ms).to_bytes(8, "big")
        file.write_bytes(data)
        report = check(copy)
        assert report.sound == sound, ms
        assert report.counts[OTHER_DELAYS] == sound


def test_more_queues_than_can_be_mapped(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silomq.tools.verify.windows.MOST_WINDOWS", 2)
    assert check(copy).sound


def test_a_piece_that_begins_nowhere(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body can hold what looks like a record."""
    size = golden_stores.LOG_FILE_SIZE
    pieces = [(0, 1000), (1000, 30_001), (30_001, size)]
    monkeypatch.setattr("silomq.tools.verify.steps._pieces", lambda *_: pieces)
    assert check(copy).sound
    flip(copy / "commitlog" / "00000000000000065536", 4)
    found = check(copy)
    monkeypatch.undo()
    assert found.findings == check(copy).findings != []


def test_checksums_are_joined() -> None:
    rng = random.Random(SEED)
    for size in (0, 1, 7, 8, 100, 4096, 70_000):
        first, second = rng.randbytes(rng.randrange(50)), rng.randbytes(size)
        joined = joined_crc(crc32c.crc32c(first), crc32c.crc32c(second), size)
        assert joined == crc32c.crc32c(first + second)


@pytest.mark.parametrize("wrong", [False, True])
def test_light_queues_are_sound(tmp_path: Path, wrong: bool) -> None:
    """The entries of a light queue (LMQ) lead to messages of other queues, which name them."""
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "1,0"}
    if wrong:
        properties["INNER_MULTI_QUEUE_OFFSET"] = "1,7"
    log, entries = b"", {("t", 0): b"", ("%LMQ%a", 0): b"", ("%LMQ%b", 0): b""}
    for number, props in enumerate(({**properties, "INNER_MULTI_DISPATCH": "%LMQ%a,x",
                                     "INNER_MULTI_QUEUE_OFFSET": "0,0"}, properties)):  # fmt: skip
        record = encode_record(
            b"t", b"body", encode_properties(props), queue_offset=number, physical_offset=len(log)
        )
        entry = ENTRY.pack(len(log), len(record), 0)
        entries["t", 0] += entry
        entries["%LMQ%a", 0] += entry
        if number:
            entries["%LMQ%b", 0] += entry
        log += record
    (tmp_path / "commitlog").mkdir()
    size = golden_stores.LOG_FILE_SIZE
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(log.ljust(size, b"\0"))
    for (topic, queue), data in entries.items():
        folder = tmp_path / "consumequeue" / topic / str(queue)
        folder.mkdir(parents=True)
        whole = data.ljust(golden_stores.QUEUE_FILE_SIZE, b"\0")
        (folder / f"{0:020d}").write_bytes(whole)
    report = check(tmp_path)
    assert report.counts["queue entries"] == 5
    assert [f.path.split("/")[-3] for f in report.findings] == (["%LMQ%b"] if wrong else [])


def test_a_lost_queue_is_named(copy: Path) -> None:
    shutil.rmtree(copy / "consumequeue" / "orders-v2" / "0")
    found = check(copy).findings
    assert found
    assert all("orders-v2/0" in f.what or "more" in f.what for f in found)


def test_a_lost_log_file_is_named(copy: Path) -> None:
    (copy / "commitlog" / "00000000000000131072").unlink()
    found = check(copy).findings
    assert any("missing: offsets 131072 to 196608 are lost" in f.what for f in found)


def test_bad_json_is_named(copy: Path) -> None:
    (copy / "config" / "delayOffset.json").write_text('{"offsetTable":{1:')
    assert [f.path for f in check(copy).findings] == [str(copy / "config" / "delayOffset.json")]


@pytest.mark.parametrize(
    ("name", "size", "why"),
    [
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
