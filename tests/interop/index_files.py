"""The index files themselves: what is in them more than once, and what RocketMQ's own recovery will
put into them a second time.

A store that was not stopped cleanly RocketMQ dispatches again from an older commit-log file on
(`CommitLog.recoverAbnormally`). `IndexService.buildIndex` passes over records before the last one
that the newest index file it kept knows, but not over that one itself: its keys are put again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from support.checking.files import index_entries, surplus_entries

from silomq.store.disk.files import Folder
from silomq.store.index.file import HEADER, HEADER_SIZE
from silomq.store.record.javahash import index_key_hash
from silomq.store.recovery import checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from support.checking.stored import Known


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
    store: Path,
    settings: Mapping[str, Any],
    known: Sequence[Known],
    twice: set[int],
    *,
    killed: bool,
    halted: bool = False,
    others: Sequence[Known] = (),
) -> set[int]:
    """Each key of each record is in the index files as often as the record has it, or as often
    again if its offset is in `twice`. The offsets of which there is too much.

    A `killed` store may not have dispatched its last messages, and holds some that nobody knows.
    Keys of `others` may be there: RocketMQ's own messages, which it may not have dispatched. Was
    it `halted`, then an entry may stand in a file that the file does not count yet.
    """
    found = index_entries(store, int(settings["max_hash_slot_num"]), settled=not (killed or halted))
    wanted = Counter(
        (index_key_hash(k.topic, key), k.physical_offset) for k in known for key in k.keys
    )
    assert sum(found.values()) > 1000
    if not killed:
        lost = wanted - found
        assert not lost, f"{len(lost)} keys are not in the index"
        places = {k.physical_offset for k in (*known, *others)}
        assert {place for _, place in found} <= places, "keys of messages that nobody knows"
    return surplus_entries(found, wanted, twice)
