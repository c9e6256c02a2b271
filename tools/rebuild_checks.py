"""What a rebuild of queues and index refuses, because it would not give what was there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .holes.log_damage import find_damage, known_log_of
from .holes.misplaced_records import misplaced_records
from .raw.files import BadInput, StoreFiles
from .raw.walk import walk_file
from .rocketmq.logs import LogView

if TYPE_CHECKING:
    from ..store.commitlog.holes import Holes
    from ..store.commitlog.log import CommitLog


def refuse_damage(files: StoreFiles, log: LogView) -> None:
    """Raises BadInput for damage. Reads the whole log, not only the part that recovery would
    read.
    """
    for base in log.bases:
        for found in walk_file(files, base):
            if base < log.end and found.offset < log.end and found.why and found.record is None:
                raise BadInput(_damaged(files, base, found.offset, found.why))
    if log.problems:
        raise BadInput(f"{log.problems[0]}; restore the file, or repair with --holes")


def refuse_misplaced(
    files: StoreFiles, log: CommitLog, holes: Holes, end: int = sys.maxsize
) -> None:
    """Raises BadInput for records before log offset `end` that name a wrong place in their queue: a
    queue that is built from them would have millions of empty entries, or could not be read.
    """
    damage = find_damage(log, known_log_of(files.path, files.log_size))
    for found in misplaced_records(files.path, log, damage, holes):
        if found.offset < end:
            topic, queue_id = found.queue
            path = files.log_path(log.base_of(found.offset))
            raise BadInput(
                f"{path}: the record at offset {found.offset} names queue offset "
                f"{found.queue_offset} of queue {queue_id} of topic {topic.decode()}, its "
                "neighbours in the queue contradict: restore the file from a copy, or repair with "
                "--holes, which goes on without this record"
            )


def _damaged(files: StoreFiles, base: int, offset: int, why: str) -> str:
    return (
        f"{files.log_path(base)} is damaged at offset {offset} ({why}): restore the file from a "
        f"copy, or repair with --holes, which goes on without it, or with --truncate-at {offset}, "
        "which gives up what lies behind"
    )
