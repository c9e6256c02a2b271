"""Makes queue entries from records and writes them at their places: queue offset x 20.

Nothing is sorted across files or machines, and writing an entry again changes nothing. So any
number of tasks may write into one queue, and each task may be repeated.
"""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow.compute as pc

from ...store.consumequeue.queue import BLANK_ENTRY, ENTRY_FIELDS, ENTRY_SIZE
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ...store.disk.paths import CONSUME_QUEUE, file_name
from ...store.names import SCHEDULE_TOPIC, validate_topic
from ...store.record.format import (
    SYS_TRANSACTION,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    decode_record,
)
from ...tools.rocketmq.view import entry_code
from .hashing import java_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ENTRY: Final = np.dtype(list(ENTRY_FIELDS))
#: The columns that entries are made from.
COLUMNS: Final = (
    "topic", "queue_id", "queue_offset", "physical_offset", "tags", "size", "sys_flag",
)  # fmt: skip
_OPEN_FILES: Final = 256
assert ENTRY.itemsize == ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class Run:
    """Entries of one queue, ascending: `offsets` are queue offsets, `entries` an array of ENTRY."""

    topic: str
    queue_id: int
    offsets: Any
    entries: Any


def runs_of(
    batch: Any,
    memory: memoryview,
    base: int,
    deleted: Mapping[str, int],
    delay_levels_ms: Sequence[int],
) -> Iterator[Run]:
    """The queue entries of a batch of records, queue by queue. The batch has the columns COLUMNS
    and comes from the log file at address `base`.

    Half messages and rollbacks get no entries. Neither do records of a deleted topic: `deleted`
    has, by its name, the log address below which records are the deleted topic's.
    """
    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    topic = topics.indices.to_numpy(zero_copy_only=False)
    kind = batch.column("sys_flag").to_numpy() & SYS_TRANSACTION
    physical = batch.column("physical_offset").to_numpy()
    wanted = (kind != TRANSACTION_PREPARED) & (kind != TRANSACTION_ROLLBACK)
    if deleted:
        below = np.array([deleted.get(name, 0) for name in names])
        wanted &= physical >= below[topic]
    entries: Any = np.zeros(len(batch), dtype=ENTRY)
    entries["offset"] = physical
    entries["size"] = batch.column("size").to_numpy()
    entries["tags_code"] = _codes(batch, memory, base, delay_levels_ms)
    queue, place = batch.column("queue_id").to_numpy(), batch.column("queue_offset").to_numpy()
    rows = np.flatnonzero(wanted)
    rows = rows[np.lexsort((place[rows], queue[rows], topic[rows]))]
    if not len(rows):
        return
    changes = (np.diff(topic[rows]) != 0) | (np.diff(queue[rows]) != 0)
    for part in np.split(rows, np.flatnonzero(changes) + 1):
        name = names[int(topic[part[0]])]
        yield Run(name, int(queue[part[0]]), place[part], entries[part])


def _codes(batch: Any, memory: memoryview, base: int, delay_levels_ms: Sequence[int]) -> Any:
    """The third field of each entry: the hash of the tags, or the due time of a delayed message."""
    tags = batch.column("tags").dictionary_encode()
    hashes = java_hashes(tags.dictionary).view(np.int32).astype(np.int64)
    codes = np.append(hashes, 0)[pc.fill_null(tags.indices, len(hashes)).to_numpy()]
    delayed = pc.equal(batch.column("topic"), SCHEDULE_TOPIC).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(delayed).tolist():
        at = batch.column("physical_offset")[row].as_py()
        record = decode_record(memory, at - base, base=base, check_crc=False)
        codes[row] = entry_code(record, delay_levels_ms)
    return codes


class QueueWriter:
    """Writes entries into the queue files below `folder`. Each file is made when it is first
    needed, sparse and of `file_size` bytes. A context manager that closes the files. Raises
    OSError, and IllegalMessage for a topic's name that is not allowed.
    """

    def __init__(self, folder: str, file_size: int) -> None:
        self.file_size = file_size
        self._folder = Folder.open(folder)
        self._open: OrderedDict[tuple[str, int, int], int] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            os.close(self._open.popitem()[1])
        self._folder.close()

    def write(self, run: Run) -> None:
        """Writes the entries at their places; neighbours are written in one call."""
        breaks = np.diff(run.offsets) != 1
        files = run.offsets * ENTRY_SIZE // self.file_size
        breaks |= np.diff(files) != 0
        bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(run.offsets)]
        for start, end in itertools.pairwise(bounds):
            position = int(run.offsets[start]) * ENTRY_SIZE
            base = position - position % self.file_size
            fd = self._file(run.topic, run.queue_id, base)
            disk.write_at(fd, run.entries[start:end].tobytes(), position - base)

    def blank(self, topic: str, queue_id: int, first: int) -> None:
        """Marks the entries before queue offset `first` in its file as blank, as RocketMQ does in a
        queue that does not begin with 0.
        """
        count = first % (self.file_size // ENTRY_SIZE)
        if count:
            fd = self._file(topic, queue_id, (first - count) * ENTRY_SIZE)
            disk.write_at(fd, BLANK_ENTRY * count, 0)

    def _file(self, topic: str, queue_id: int, base: int) -> int:
        key = (topic, queue_id, base)
        fd = self._open.pop(key, None)
        if fd is None:
            validate_topic(topic)  # it becomes a folder's name, and a record is not trusted
            path = f"{CONSUME_QUEUE}/{topic}/{queue_id}/{file_name(base)}"
            with self._folder.parent(path, create=True) as (parent, name):
                fd = parent.open_file(name, write=True, create=True)
            disk.set_size(fd, self.file_size)
            if len(self._open) >= _OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
        self._open[key] = fd
        return fd
