"""RocketMQ's golden store as one of ours, its damage and its repair."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import golden_stores, offline_stores
from support.golden_stores import LOG_FILE_SIZE as SIZE

from silomq.store.commitlog.holes import Holes
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.recovery import log_begin
from silomq.store.recovery.durable_progress import DurableProgress, ProgressFile
from silomq.store.recovery.look import look
from silomq.tools.raw.files import StoreFiles
from silomq.tools.raw.walk import walk_file
from silomq.tools.repair import apply, plan_holes, plan_rebuild, plan_truncate
from silomq.tools.rocketmq.view import is_queued
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from silomq.store.record.format import Record

SETTINGS = offline_stores.settings()


def our_store(tmp_path: Path) -> golden_stores.Golden:
    """RocketMQ's store, as ours: a start knows where it begins and how far it was durable."""
    found = offline_stores.unpack("normal", tmp_path)
    with StoreFolders(found.path, create=True) as folders:
        end = found.of("store")[0]["maxPhyOffset"]
        checkpoint = found.path / "checkpoint"
        checkpoint.unlink()
        ProgressFile(folders.ours).write(DurableProgress(flushed=end, clean=True))
        log_begin.write(folders.ours, 0)
    return found


def log_file(store: golden_stores.Golden, number: int) -> Path:
    return sorted((store.path / "commitlog").iterdir())[number]


def holes_of(path: Path) -> list[tuple[int, int]]:
    with Folder.open(path) as root:
        return [(hole.start, hole.end) for hole in Holes.read(root)]


def repair(path: Path) -> Path:
    return Path(apply(str(path), SETTINGS, plan_holes(str(path), SETTINGS)))


def messages(store: golden_stores.Golden) -> list[dict[str, Any]]:
    return sorted(store.of("msg"), key=lambda m: int(m["commitLogOffset"]))


def records_of(path: Path) -> dict[int, Record]:
    """All records of the log by their offsets."""
    files = StoreFiles(path, SETTINGS)
    return {
        found.offset: found.record
        for base in files.log_bases
        for found in walk_file(files, base)
        if found.record is not None
    }


def check(store: golden_stores.Golden, *, lost: int | None = None) -> None:
    """Every message that lies in no hole is where it was. In the holes lie stand-ins, of the same
    queue offsets. The store is sound, and a start takes it.
    """
    holes = holes_of(store.path)
    assert verify(store.path, SETTINGS).findings == []
    records = records_of(store.path)
    queued = [record for record in records.values() if is_queued(record)]
    places = {(r.topic, r.queue_id, r.queue_offset): r for r in queued}
    gone = 0
    for message in messages(store):
        at = message["commitLogOffset"]
        if not any(start <= at < end for start, end in holes):
            assert records[at].queue_offset == message["queueOffset"]
            assert records[at].topic == message["topic"]
            continue
        gone += 1
        if message["inCq"]:
            stand_in = places[message["topic"], message["queueId"], message["queueOffset"]]
            assert any(start <= stand_in.physical_offset < end for start, end in holes)
            assert stand_in.body.strip(b"\0") == b""
    assert gone == lost or (lost is None and gone)
    with StoreFolders(store.path) as folders:
        assert look(folders, SETTINGS).log.end.end == store.of("store")[0]["maxPhyOffset"]


def flip(store: golden_stores.Golden, offset: int, *, size: int = 1) -> None:
    file = store.path / "commitlog" / file_name(offset - offset % SIZE)
    data = bytearray(file.read_bytes())
    at = offset % SIZE
    data[at : at + size] = bytes(byte ^ 0xFF for byte in data[at : at + size])
    file.write_bytes(data)


def rebuild(path: Path) -> None:
    files = StoreFiles(path, SETTINGS)
    steps = plan_rebuild(files)
    files.close()
    apply(str(path), SETTINGS, steps)


def truncate(path: Path, end: int) -> None:
    files = StoreFiles(path, SETTINGS)
    steps = plan_truncate(files, end)
    files.close()
    apply(str(path), SETTINGS, steps)


def move_in_queue(store: golden_stores.Golden, offset: int, by: int) -> None:
    """Adds to the queue offset in a record's head."""
    file = store.path / "commitlog" / file_name(offset - offset % SIZE)
    data = bytearray(file.read_bytes())
    field = slice(offset % SIZE + 20, offset % SIZE + 28)
    data[field] = (int.from_bytes(data[field], "big") + by).to_bytes(8, "big")
    file.write_bytes(data)
