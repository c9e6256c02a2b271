"""`dump` shows what stands in the files, and goes on behind damage."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support import golden_stores, offline_stores

from silomq.tools import dump
from silomq.tools.raw.files import BadInput, StoreFiles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> golden_stores.Golden:
    return offline_stores.unpack("normal", tmp_path)


def files(store: golden_stores.Golden) -> StoreFiles:
    return StoreFiles(store.path, offline_stores.settings())


def test_every_piece_of_the_log(store: golden_stores.Golden) -> None:
    before = offline_stores.state(store.path)
    pieces = list(dump.dump_commitlog(files(store)))
    records = [p for p in pieces if p["kind"] == "record"]
    assert [p["offset"] for p in records] == [m["commitLogOffset"] for m in store.of("msg")]
    blanks = [(p["offset"], p["size"]) for p in pieces if p["kind"] == "blank"]
    assert blanks == [(b["commitLogOffset"], b["size"]) for b in store.of("blank")]
    assert [p["kind"] for p in pieces[-1:]] == ["tail"]
    assert not any("wrong" in p for p in records)
    assert offline_stores.state(store.path) == before


def test_ranges(store: golden_stores.Golden) -> None:
    offsets = [m["commitLogOffset"] for m in store.of("msg")]
    pieces = list(dump.dump_commitlog(files(store), offsets[10], 3))
    assert [p["offset"] for p in pieces] == offsets[10:13]
    # An address inside a record: the next one is the first.
    (piece,) = dump.dump_commitlog(files(store), offsets[10] + 1, 1)
    assert piece["offset"] == offsets[11]


def test_damage_in_the_log(store: golden_stores.Golden) -> None:
    a, b, c = [m["commitLogOffset"] for m in store.of("msg")][5:8]
    file = store.path / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[b + 4] ^= 0xFF
    file.write_bytes(data)
    pieces = list(dump.dump_commitlog(files(store), a, 3))
    assert [(p["kind"], p["offset"]) for p in pieces] == [
        ("record", a),
        ("damage", b),
        ("record", c),
    ]
    assert "magic" in pieces[1]["wrong"]
    with pytest.raises(BadInput, match="no record begins"):
        dump.dump_record(files(store), b)


def test_one_record(store: golden_stores.Golden) -> None:
    message = store.of("msg")[7]
    found = dump.dump_record(files(store), message["commitLogOffset"])
    same = ("topic", "queueId", "queueOffset", "msgId", "bornHost", "storeHost", "properties")
    assert {name: found[name] for name in same} == {name: message[name] for name in same}
    with pytest.raises(BadInput, match="holds no offset"):
        dump.dump_record(files(store), 1 << 40)


def test_every_queue_entry(store: golden_stores.Golden) -> None:
    pieces = list(dump.dump_queues(files(store)))
    found = {
        (p["topic"], p["queueId"], p["queueOffset"]): (p["offset"], p["size"], p["tagsCode"])
        for p in pieces
    }
    assert found == {
        (m["topic"], m["queueId"], m["queueOffset"]): tuple(m["cq"].values())
        for m in store.of("msg")
        if m["inCq"]
    }
    some = list(dump.dump_queues(files(store), "a", 7, 99, 2))
    assert [p["queueOffset"] for p in some] == [99, 100]
    with pytest.raises(BadInput, match="no folder of a queue"):
        list(dump.dump_queues(files(store), "nobody"))


def test_a_hole_in_a_queue(store: golden_stores.Golden) -> None:
    file = store.path / "consumequeue" / "a" / "7" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[200:260] = bytes(60)
    file.write_bytes(data)
    pieces = list(dump.dump_queues(files(store), "a", 7, 9, 3))
    assert [p["queueOffset"] for p in pieces] == [9, 10, 13]
    assert "empty" in pieces[1]["wrong"]


def test_index_and_checkpoint(store: golden_stores.Golden) -> None:
    heads = list(dump.dump_index(files(store), count=0))
    assert [p["indexCount"] for p in heads] == [2000] * 4 + [242]
    entries = [p for p in dump.dump_index(files(store)) if p["kind"] == "entry"]
    assert len(entries) == 4 * 1999 + 241
    assert not any("wrong" in p for p in entries)
    found = dump.dump_checkpoint(files(store))
    times = [found[name] for name in found if name.endswith("Timestamp")]
    assert times == store.of("store")[0]["checkpoint"]
    (store.path / "checkpoint").unlink()
    with pytest.raises(BadInput, match="no file checkpoint"):
        dump.dump_checkpoint(files(store))


def test_bare_store(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    bare = StoreFiles(tmp_path / "store", offline_stores.settings())
    assert list(dump.dump_commitlog(bare)) == []
    assert list(dump.dump_queues(bare)) == []
    shutil.rmtree(tmp_path / "store")
