"""Records that name a wrong place in their queue are found: a rebuild would put them far ahead."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import golden_stores
from support.golden_stores import LOG_FILE_SIZE as SIZE
from support.repaired_stores import (
    SETTINGS,
    check,
    holes_of,
    messages,
    move_in_queue,
    our_store,
    rebuild,
    repair,
    truncate,
)

from silomq.store.commitlog.holes import Holes
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import file_name
from silomq.store.recovery.log_files import NOTHING_OF_THE_LOG
from silomq.tools.holes.log_damage import find_damage, open_log
from silomq.tools.holes.misplaced_records import misplaced_records
from silomq.tools.raw.files import BadInput, StoreFiles

if TYPE_CHECKING:
    pass


@pytest.fixture
def store(tmp_path: Path) -> golden_stores.Golden:
    return our_store(tmp_path)


def test_a_record_at_a_wrong_place_of_its_queue_becomes_a_hole(
    store: golden_stores.Golden,
) -> None:
    """No checksum guards its queue offset, but its neighbours tell. A rebuild would put it far
    ahead.
    """
    queue = [m for m in messages(store) if m["topic"] == "orders-v2" and m["inCq"]]
    victims = [m for m in queue if m["queueId"] == queue[0]["queueId"]][5:12:6]
    for message, bit in zip(victims, (25, 27), strict=True):
        flip_bit(store, message["commitLogOffset"] + bit)
    repair(store.path)
    assert holes_of(store.path) == [
        (m["commitLogOffset"], m["commitLogOffset"] + m["storeSize"]) for m in victims
    ]
    check(store, lost=2)


def flip_bit(store: golden_stores.Golden, offset: int) -> None:
    """Of the queue offset, 20 to 28 bytes behind a record's begin."""
    file = store.path / "commitlog" / file_name(offset - offset % SIZE)
    data = bytearray(file.read_bytes())
    data[offset % SIZE] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize("queues", ["whole", "lost"])
@pytest.mark.parametrize("number", [0, -1])
def test_a_wrong_place_of_a_queues_first_or_last_record_becomes_a_hole(
    store: golden_stores.Golden, number: int, queues: str
) -> None:
    """A rebuild refuses it, because the queue would begin or end millions of entries ahead."""
    queue = [m for m in messages(store) if m["topic"] == "orders-v2" and m["inCq"]]
    queue = [m for m in queue if m["queueId"] == queue[0]["queueId"]]
    victim = queue[number]
    at = victim["commitLogOffset"]
    move_in_queue(store, at, 2_000_000)
    if queues == "lost":
        shutil.rmtree(store.path / "consumequeue")
    with pytest.raises(BadInput, match=rf"offset {at} names queue offset 2000.*--holes"):
        rebuild(store.path)
    with pytest.raises(BadInput, match=rf"offset {at} names queue offset 2000.*--holes"):
        truncate(store.path, messages(store)[-1]["commitLogOffset"])
    repair(store.path)
    assert holes_of(store.path) == [(at, at + victim["storeSize"])]
    if number == 0 or queues == "whole":
        check(store, lost=1)
    files = StoreFiles(store.path, SETTINGS)
    assert all(file.base < SIZE for file in files.queue_files("orders-v2", victim["queueId"]))
    files.close()
    rebuild(store.path)


@pytest.mark.parametrize("count", [1, 2])
def test_old_queue_entries_tell_which_of_a_few_records_is_misplaced(
    store: golden_stores.Golden, count: int
) -> None:
    """Of a queue that has one record or two, and both would be possible."""
    queues: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for message in messages(store):
        if message["inCq"]:
            queues.setdefault((message["topic"], message["queueId"]), []).append(message)
    queue = next(found for found in queues.values() if len(found) == count)
    for victim in queue:
        at = victim["commitLogOffset"]
        move_in_queue(store, at, 2_000_000)
        with Folder.open(store.path) as root, open_log(str(store.path), SIZE) as log:
            damage = find_damage(log, NOTHING_OF_THE_LOG)
            found = misplaced_records(str(store.path), log, damage, Holes.read(root))
        assert [record.offset for record in found] == [at]
        move_in_queue(store, at, -2_000_000)
