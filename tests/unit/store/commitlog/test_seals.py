"""Seals of full files."""

from __future__ import annotations

import json
from pathlib import Path

import crc32c
import pytest
from support.store_files import Store, batches

from silomq.store.commitlog import seals
from silomq.store.commitlog.seals import Seals, seal_of
from silomq.store.disk.paths import file_name
from silomq.store.errors import Corrupt

FILE_SIZE = 6000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, batches(3, 60), file_size=FILE_SIZE)


def test_a_seal_says_what_the_file_holds(store: Store) -> None:
    for base in store.log.bases()[:2]:
        records = [r for r in store.records if base <= r.physical_offset < base + FILE_SIZE]
        data = (Path(store.folders.commit_log.path) / file_name(base)).read_bytes()
        seal = seal_of(store.log, base)
        assert seal.size == FILE_SIZE
        assert int(seal.crc32c, 16) == crc32c.crc32c(data)
        assert (seal.records, seal.first_offset) == (len(records), base)
        assert seal.last_offset == records[-1].physical_offset
        assert seal.first_store_time == records[0].store_timestamp
        assert seal.last_store_time == records[-1].store_timestamp


@pytest.mark.parametrize("step", [1, 100, FILE_SIZE - 1])
def test_a_seal_is_the_same_in_pieces(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Of any length: records lie across their ends."""
    whole = seal_of(store.log, 0)
    monkeypatch.setattr(seals, "_STEP", step)
    rests: list[float] = []
    assert seal_of(store.log, 0, rests.append) == whole
    assert len(rests) == -(-FILE_SIZE // step)


def test_seals_are_kept_and_removed(store: Store) -> None:
    kept = Seals(store.folders)
    assert kept.bases() == []
    assert kept.read(0) is None
    for base in (0, FILE_SIZE, 2 * FILE_SIZE):
        kept.write(base, seal_of(store.log, base))
    assert Seals(store.folders).read(FILE_SIZE) == seal_of(store.log, FILE_SIZE)
    kept.remove_outside(FILE_SIZE, 2 * FILE_SIZE)
    assert kept.bases() == [FILE_SIZE]
    for name in ("²" * 20, "9" * 20, "x" * 20):  # somebody else's files
        (Path(kept.folder.path) / f"{name}.json").touch()
    assert kept.bases() == [FILE_SIZE]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"size": 1}'])
def test_a_broken_seal_is_named(store: Store, text: str) -> None:
    kept = Seals(store.folders)
    (Path(kept.folder.path) / (file_name(0) + ".json")).write_text(text)
    with pytest.raises(Corrupt, match="not a seal"):
        kept.read(0)


def test_a_seal_is_plain_json(store: Store) -> None:
    seals = Seals(store.folders)
    seals.write(0, seal_of(store.log, 0))
    found = json.loads((Path(seals.folder.path) / (file_name(0) + ".json")).read_text())
    assert found["size"] == FILE_SIZE
