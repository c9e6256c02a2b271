"""Start-up of stores that RocketMQ wrote: what it serves is what RocketMQ's manifest says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.golden_starts import Started, check
from support.golden_stores import (
    LOG_FILE_SIZE,
    NAMES,
    Golden,
    unpack,
)

from silomq.store.disk.paths import StoreFolders, file_bases, file_name
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    return unpack(request.param, tmp_path)


def test_every_message_is_where_rocketmq_says(golden: Golden) -> None:
    store = Started(golden.path)
    check(store, golden)
    assert store.report.known_from == "RocketMQ's checkpoint"
    assert store.report.clean is (golden.name != "crashed")
    assert store.report.cut_bytes == 0


def test_again_and_without_anything_derived(golden: Golden) -> None:
    """A second start finds the same; so does one that has only the log and the checkpoint."""
    check(Started(golden.path), golden)
    check(Started(golden.path), golden)
    if golden.name == "preblank":
        return  # what was lost cannot be told from the log alone
    shutil.rmtree(golden.path / "consumequeue")
    shutil.rmtree(golden.path / "index")
    check(Started(golden.path), golden)


def test_only_what_was_not_durable_is_read(tmp_path: Path) -> None:
    """A clean store's last files are scanned and nothing is dispatched."""
    store = Started(unpack("normal", tmp_path).path)
    first, last = store.files.log.bases()[0], store.files.log.bases()[-1]
    assert first < store.report.scanned_from == last - 2 * LOG_FILE_SIZE
    assert store.report.entries_dispatched == 0


@pytest.mark.parametrize("name", ["normal", "crashed"])
def test_damage_between_good_records_is_refused(name: str, tmp_path: Path) -> None:
    golden = unpack(name, tmp_path)
    ends = sorted(m["commitLogOffset"] for m in golden.of("msg"))
    victim = ends[-20]
    folder = StoreFolders(golden.path, create=True).commit_log
    base = max(b for b in file_bases(folder) if b <= victim)
    path = golden.path / "commitlog" / file_name(base)
    data = bytearray(path.read_bytes())
    data[victim - base + 90] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="silo repair") as caught:
        Started(golden.path)
    assert caught.value.offset == victim
    assert path.read_bytes() == bytes(data)
