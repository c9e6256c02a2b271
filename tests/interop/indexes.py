"""The index files themselves: what is in them more than once, and what RocketMQ's own recovery will
put into them a second time.

A store that was not stopped cleanly RocketMQ dispatches again from an older commit-log file on
(`CommitLog.recoverAbnormally`). `IndexService.buildIndex` passes over records before the last one
that the newest index file it kept knows, but not over that one itself: its keys are put again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from support.harness import SMALL

from silomq.store.disk.files import Folder
from silomq.store.index.file import ENTRY_SIZE, HEADER, HEADER_SIZE, SLOT_SIZE
from silomq.store.record.javahash import index_key_hash
from silomq.store.recovery import checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from interop.knowing import Known


def put_again_by_rocketmq(store: Path) -> set[int]:
    """The offset of the record whose keys RocketMQ will put a second time when it opens this store;
    empty if it will not.
    """
    if not (store / "abort").exists():
        return set()
    with Folder.open(store) as root:
        noted = checkpoint.read(root)
    assert noted is not None
    last = None
    for file in sorted((store / "index").iterdir()):
        _, end_time, _, end_offset, _, count = HEADER.unpack(file.read_bytes()[:HEADER_SIZE])
        if end_time <= noted.index_msg_timestamp and count > 1:
            last = end_offset
    return set() if last is None else {last}


def check_index_files(
    store: Path, settings: Mapping[str, Any], known: Sequence[Known], twice: set[int]
) -> set[int]:
    """Each key of each record is in the index files no more often than the record has it, or as
    often again if its offset is in `twice`. The offsets of which there is too much.
    """
    slots = int(settings.get("max_hash_slot_num", SMALL["max_hash_slot_num"]))
    wanted = Counter((index_key_hash(k.topic, key), k.place) for k in known for key in k.keys)
    found: Counter[tuple[int, int]] = Counter()
    for file in sorted((store / "index").iterdir()):
        data = file.read_bytes()
        count = HEADER.unpack_from(data)[5]
        for number in range(1, count):
            at = HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number
            entry = data[at : at + 12]
            found[int.from_bytes(entry[:4], "big"), int.from_bytes(entry[4:], "big")] += 1
    places = {k.place for k in known}
    assert sum(found.values()) > 1000
    surplus = {key for key, count in found.items() if key[1] in places and count > wanted[key]}
    too_often = {place for _, place in surplus}
    assert too_often <= twice, f"of {sorted(too_often - twice)} keys are in the index twice"
    assert all(found[key] <= 2 * wanted[key] for key in surplus)
    return too_often
