"""`repair --holes` goes on without what the log has lost: all good data before and behind it stays,
and queue offsets stay what they were.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import golden_stores, offline_stores
from support.golden_stores import LOG_FILE_SIZE as SIZE
from support.repaired_stores import (
    SETTINGS,
    check,
    flip,
    holes_of,
    log_file,
    messages,
    our_store,
    rebuild,
    records_of,
    repair,
)

from silomq.store.commitlog.holes import Hole, Holes
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import HOLES, StoreFolders, file_name
from silomq.store.errors import Corrupt
from silomq.store.recovery.look import look
from silomq.tools.holes.hole_filling import LOST
from silomq.tools.raw.files import BadInput, StoreFiles, read_settings
from silomq.tools.repair import apply, plan_holes, plan_truncate
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def store(tmp_path: Path) -> golden_stores.Golden:
    return our_store(tmp_path)


@pytest.mark.parametrize("number", [0, 1, 2000, 4066])
def test_a_damaged_record_becomes_a_hole(store: golden_stores.Golden, number: int) -> None:
    """Only this message is lost; what was left of it is in recovery/."""
    message = messages(store)[number]
    start, size = message["commitLogOffset"], message["storeSize"]
    flip(store, start + 4)
    data = (store.path / "commitlog" / file_name(start - start % SIZE)).read_bytes()
    kept = repair(store.path)
    assert holes_of(store.path) == [(start, start + size)]
    copy = kept / f"commitlog-{file_name(start)}"
    assert copy.read_bytes() == data[start % SIZE :][:size]
    with Folder.open(store.path) as root:
        (hole,) = Holes.read(root)
    assert hole.kept == f"recovery/{kept.name}"
    check(store, lost=1)
    assert records_of(store.path)[start].properties.get(LOST, "") in ("", f"{start}-{start + size}")


@pytest.mark.parametrize("number", [0, 1000, 4067])
@pytest.mark.parametrize("part", ["topic", "properties"])
def test_a_record_that_is_not_text_becomes_a_hole(
    store: golden_stores.Golden, part: str, number: int
) -> None:
    """No checksum guards topic and properties. Verify finds the byte, a rebuild refuses it."""
    message = messages(store)[number]
    start, size = message["commitLogOffset"], message["storeSize"]
    at = start + 88 + message["bodyLen"] + 1 if part == "topic" else start + size - 1
    file = store.path / "commitlog" / file_name(start - start % SIZE)
    data = bytearray(file.read_bytes())
    data[at % SIZE] = 0xFF
    file.write_bytes(data)
    assert verify(store.path, SETTINGS).findings
    with pytest.raises(BadInput, match="--holes"):
        rebuild(store.path)
    repair(store.path)
    assert holes_of(store.path) == [(start, start + size)]
    check(store, lost=1)


def missing_first(store: golden_stores.Golden) -> None:
    log_file(store, 0).unlink()


def missing_middle(store: golden_stores.Golden) -> None:
    log_file(store, 3).unlink()


def missing_last(store: golden_stores.Golden) -> None:
    end = store.of("store")[0]["maxPhyOffset"]
    (store.path / "commitlog" / file_name(end - end % SIZE)).unlink()


def two_missing(store: golden_stores.Golden) -> None:
    log_file(store, 4).unlink()
    log_file(store, 3).unlink()


def short_middle(store: golden_stores.Golden) -> None:
    os.truncate(log_file(store, 2), SIZE // 2 + 77)


def empty_middle(store: golden_stores.Golden) -> None:
    os.truncate(log_file(store, 2), 0)


def short_last(store: golden_stores.Golden) -> None:
    end = store.of("store")[0]["maxPhyOffset"]
    os.truncate(store.path / "commitlog" / file_name(end - end % SIZE), end % SIZE // 2)


def zeroed_range(store: golden_stores.Golden) -> None:
    at = messages(store)[1000]["commitLogOffset"]
    file = store.path / "commitlog" / file_name(at - at % SIZE)
    data = bytearray(file.read_bytes())
    data[at % SIZE + 50 : at % SIZE + 5000] = bytes(4950)
    file.write_bytes(data)


def swapped(store: golden_stores.Golden) -> None:
    one, other = log_file(store, 1), log_file(store, 2)
    one.rename(one.with_name("x"))
    other.rename(one)
    one.with_name("x").rename(other)


def a_folder(store: golden_stores.Golden) -> None:
    file = log_file(store, 2)
    file.unlink()
    file.mkdir()


def a_bad_end_of_file(store: golden_stores.Golden) -> None:
    behind = [m for m in messages(store) if m["commitLogOffset"] < 2 * SIZE][-1]
    flip(store, behind["commitLogOffset"] + behind["storeSize"] + 4)


HARMS = (
    missing_first, missing_middle, missing_last, two_missing, short_middle, empty_middle,
    short_last, zeroed_range, swapped, a_folder, a_bad_end_of_file,
)  # fmt: skip


@pytest.mark.parametrize("queues", ["whole", "lost"])
@pytest.mark.parametrize("harm", HARMS)
def test_all_that_is_good_before_and_behind_a_hole_stays(
    store: golden_stores.Golden, harm: Callable[[golden_stores.Golden], None], queues: str
) -> None:
    """Also if the queues' files are lost: the records know their queue offsets. Then only the last
    messages of a queue are not known.
    """
    harm(store)
    if queues == "lost":
        shutil.rmtree(store.path / "consumequeue")
    # A start does not read what was durable; the tools do.
    if harm not in {swapped, a_bad_end_of_file, zeroed_range}:
        with StoreFolders(store.path, create=True) as folders, pytest.raises(Corrupt):
            look(folders, SETTINGS)
    repair(store.path)
    if queues == "whole" or harm not in (missing_last, short_last):
        check(store, lost=0 if harm is a_bad_end_of_file else None)
    with pytest.raises(BadInput, match="the log lacks nothing"):
        plan_holes(str(store.path), SETTINGS)


def test_a_second_repair_keeps_the_holes_of_the_first(store: golden_stores.Golden) -> None:
    found = messages(store)
    for number in (1000, 1001, 3000):
        flip(store, found[number]["commitLogOffset"] + 4)
        repair(store.path)
    ends = [(m["commitLogOffset"], m["commitLogOffset"] + m["storeSize"]) for m in found]
    assert holes_of(store.path) == [(ends[1000][0], ends[1001][1]), ends[3000]]
    check(store, lost=3)


def test_a_hole_that_grew_names_all_folders_that_keep_its_bytes(
    store: golden_stores.Golden,
) -> None:
    kept = []
    for number in (1001, 1000, 1002):
        flip(store, messages(store)[number]["commitLogOffset"] + 4)
        kept.append(f"recovery/{repair(store.path).name}")
    with Folder.open(store.path) as root:
        (hole,) = Holes.read(root)
    assert len(set(kept)) == 3
    assert sorted(hole.kept.split(", ")) == sorted(kept)
    assert len([part for name in kept for part in (store.path / name).glob("commitlog-*")]) == 3


def test_a_hole_ends_where_the_log_is_cut_off(store: golden_stores.Golden) -> None:
    found = messages(store)
    for number in (1000, 1001, 3000):
        flip(store, found[number]["commitLogOffset"] + 4)
    repair(store.path)
    places = [m["commitLogOffset"] for m in found]
    begin, behind = places[1000], places[1002]
    within = next(at for at in sorted(records_of(store.path)) if begin < at < behind)
    for end, left in ((places[2000], (begin, behind)), (within, (begin, within))):
        files = StoreFiles(store.path, SETTINGS)
        steps = plan_truncate(files, end)
        files.close()
        # Until the bytes are gone, the declaration tells them from messages.
        kinds = [step.kind for step in steps]
        assert kinds.index("zero") < kinds.index("drop") < kinds.index("rebuild")
        apply(str(store.path), SETTINGS, steps)
        assert holes_of(store.path) == [left]
        assert verify(store.path, SETTINGS).findings == []


def test_holes_without_their_bytes_stay_declared(store: golden_stores.Golden) -> None:
    """A rebuild drops those alone in which messages stand again, also parts of a hole."""
    first = log_file(store, 3)
    whole = first.read_bytes()
    flip(store, messages(store)[1000]["commitLogOffset"] + 4)
    two_missing(store)
    repair(store.path)
    before = holes_of(store.path)
    assert before[0] == (3 * SIZE, 5 * SIZE)
    rebuild(store.path)
    assert holes_of(store.path) == before
    first.write_bytes(whole)
    rebuild(store.path)
    assert holes_of(store.path) == [(4 * SIZE, 5 * SIZE), before[1]]
    check(store)


def test_a_plan_changes_nothing(store: golden_stores.Golden) -> None:
    flip(store, messages(store)[1000]["commitLogOffset"] + 4)
    missing_middle(store)
    before = offline_stores.state(store.path)
    said = [step.what for step in plan_holes(str(store.path), SETTINGS)]
    assert offline_stores.state(store.path) == before
    assert any(f"offsets {3 * SIZE} to {4 * SIZE} are lost" in line for line in said)
    assert any("write stand-ins into" in line for line in said)


def test_a_store_of_rocketmqs_alone_is_repaired_too(tmp_path: Path) -> None:
    found = offline_stores.unpack("normal", tmp_path)
    missing_middle(found)
    repair(found.path)
    assert holes_of(found.path) == [(3 * SIZE, 4 * SIZE)]
    check(found)


def test_settings_of_another_store_are_refused(store: golden_stores.Golden) -> None:
    before = offline_stores.state(store.path)
    other = read_settings(None, ("mapped_file_size_commit_log=262144",))
    with pytest.raises(BadInput, match="give the store's own size"):
        plan_holes(str(store.path), other)
    assert offline_stores.state(store.path) == before


def test_a_declaration_that_is_not_readable_is_an_error(store: golden_stores.Golden) -> None:
    """Its backup is read instead, which says the same; without one nobody may take the stand-ins
    for messages.
    """
    with Folder.open(store.path) as root:
        assert list(Holes.read(root)) == []
        Holes([Hole(5, 9, "why", "now", "")]).write(root)
        holes = Holes.read(root).adding([Hole(20, 30, "why", "now", "")])
        holes.write(root)
        rng = random.Random(1)
        whole = (store.path / HOLES).read_bytes()
        for bad in (
            b"", b"{}", b"[]", b'{"holes": 1}', b'{"holes": [{"start": 1}]}', whole[:-9],
            whole.replace(b"30", b"10"), whole.replace(b"20", b"-2"), rng.randbytes(99), b"\xff",
        ):  # fmt: skip
            (store.path / HOLES).write_bytes(bad)
            assert list(Holes.read(root)) == list(holes)
        (store.path / f"{HOLES}.bak").write_bytes(b"{")
        with pytest.raises(Corrupt, match="which parts of the log are lost"):
            Holes.read(root)
