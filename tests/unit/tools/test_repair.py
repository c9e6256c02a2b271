"""`repair` builds queues and index anew, ends a log where it is told to, and keeps what goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import golden_stores, offline_stores

from silomq.tools.raw.files import BadInput, StoreFiles
from silomq.tools.repair import apply, plan_rebuild, plan_truncate
from silomq.tools.rocketmq.manifest import KeyQuery, manifest
from silomq.tools.rocketmq.view import StoreView
from silomq.tools.verify.verify import verify


@pytest.fixture
def store(tmp_path: Path) -> golden_stores.Golden:
    return offline_stores.unpack("normal", tmp_path)


def files(store: golden_stores.Golden) -> StoreFiles:
    return StoreFiles(store.path, offline_stores.settings())


def lines(path: Path, keys: list[KeyQuery], kinds: tuple[str, ...]) -> list[str]:
    view = StoreView(path, offline_stores.settings())
    return [x for x in manifest(view, (), keys) if json.loads(x)["kind"] in kinds]


def repair(store: golden_stores.Golden, truncate_at: int | None = None) -> Path:
    found = files(store)
    steps = plan_rebuild(found) if truncate_at is None else plan_truncate(found, truncate_at)
    return Path(apply(str(store.path), offline_stores.settings(), steps))


@pytest.mark.parametrize("name", ["normal", "crashed"])
def test_rebuilt_is_what_it_was(name: str, tmp_path: Path) -> None:
    store = offline_stores.unpack(name, tmp_path)
    keys = [
        KeyQuery(k["topic"], k["key"], 64, 0, 1 << 62)
        for k in store.of("key")
        if k["begin"] == 0 and 4411440 not in k["indexPhyOffsets"]
    ]
    kinds = ("blank", "queue", "msg", "key")
    before = lines(store.path, keys, kinds)
    old = offline_stores.state(store.path / "consumequeue")
    kept = repair(store)
    assert lines(store.path, keys, kinds) == before
    assert verify(store.path, offline_stores.settings()).findings == []
    assert offline_stores.state(kept / "consumequeue") == old
    if name == "normal":
        new = offline_stores.state(store.path / "consumequeue")
        assert {n: digest for n, (_, digest) in new.items()} == {
            n: digest for n, (_, digest) in old.items()
        }


def test_rebuilding_brings_lost_queues_back(tmp_path: Path) -> None:
    store = offline_stores.unpack("preblank", tmp_path)
    repair(store)
    report = verify(store.path, offline_stores.settings())
    assert report.findings == []
    assert report.counts["queue entries"] == sum(m["inCq"] for m in store.of("msg"))


def test_a_plan_changes_nothing(store: golden_stores.Golden) -> None:
    before = offline_stores.state(store.path)
    plan_rebuild(files(store))
    steps = plan_truncate(files(store), store.of("msg")[2000]["commitLogOffset"])
    assert any("zero commitlog" in step.what for step in steps)
    assert offline_stores.state(store.path) == before


@pytest.mark.parametrize("number", [1, 2000, 4067])
def test_truncation_keeps_what_it_cuts(store: golden_stores.Golden, number: int) -> None:
    end = store.of("msg")[number]["commitLogOffset"]
    before = {f.name: f.read_bytes() for f in (store.path / "commitlog").iterdir()}
    kept = repair(store, end)
    report = verify(store.path, offline_stores.settings())
    assert report.findings == []
    assert report.counts["records"] == number
    assert StoreView(store.path, offline_stores.settings()).log.end == end
    for name, data in before.items():
        now = store.path / "commitlog" / name
        saved = kept / "commitlog" / name
        assert (saved if saved.exists() else now).read_bytes() == data


def test_damage_is_cut_off_or_refused(store: golden_stores.Golden) -> None:
    offset = store.of("msg")[2000]["commitLogOffset"]
    base = offset // golden_stores.LOG_FILE_SIZE * golden_stores.LOG_FILE_SIZE
    file = store.path / "commitlog" / f"{base:020d}"
    data = bytearray(file.read_bytes())
    data[offset - base + 4] ^= 0xFF
    file.write_bytes(data)
    before = offline_stores.state(store.path)
    with pytest.raises(BadInput, match=f"--truncate-at {offset}"):
        plan_rebuild(files(store))
    with pytest.raises(BadInput, match="no record begins"):
        plan_truncate(files(store), offset + 1)
    with pytest.raises(BadInput, match="holds no offset"):
        plan_truncate(files(store), 1 << 40)
    assert offline_stores.state(store.path) == before
    repair(store, offset)
    assert verify(store.path, offline_stores.settings()).findings == []
    shutil.rmtree(store.path)
