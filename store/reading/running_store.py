"""The commit log and the consume queues of a store, for readers in other processes.

Files are mapped read-only, and the limits of a running store are words in shared memory. Clean
first moves a limit, then removes files. So a reader that finds a file missing loads the limit
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from ..commitlog.log_reader import LogReader
from ..consumequeue.queue import ENTRY, ENTRY_SIZE
from ..consumequeue.queue_reader import QueueReader
from ..consumequeue.time_lookup import BEFORE_LOG, UNREADABLE, QueueFile
from ..disk.forks import NO_FORK
from ..disk.paths import file_bases, file_name
from ..errors import Corrupt, IllegalQuery
from ..record.fields import HEAD_BYTES, head_of, store_time_of
from ..record.format import MIN_RECORD_BYTES, decode_record
from ..topics.topic_table import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...shm._memory import Mapping
    from ..disk.files import Folder

T = TypeVar("T")

assert HEAD_BYTES < MIN_RECORD_BYTES


class Limit(Protocol):
    """An offset that may move while it is read: a word in shared memory. In a store that does not
    run it is fixed.
    """

    def load(self) -> int:
        """The offset as it is now."""
        ...


class ServedLog:
    """The records of the log in `folder`, whose files have `file_size` bytes. The log has the
    offsets from `least` up to `end`.
    """

    def __init__(self, folder: Folder, file_size: int, least: Limit, end: Limit) -> None:
        self.path = folder.path
        self.file_size = file_size
        self._least = least
        self._end = end
        self._reader = LogReader(folder, file_size)
        self._forgotten = 0  # `least` when removed files were last unmapped

    @property
    def least(self) -> int:
        """The offset at which the log begins."""
        return self._least.load()

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self._end.load()

    def _has(self, at: int) -> bool:
        """Whether a log offset has not been removed. Unmaps files that have been."""
        least = self.least
        if least != self._forgotten:  # a mapped file keeps its disk space
            self._reader.forget(least - least % self.file_size)
            self._forgotten = least
        return at >= least

    def file_with(self, at: int) -> tuple[Mapping, int] | None:
        """The mapped file that holds log offset `at`, and the offset at which it begins; None if
        it has been removed, or is missing.
        """
        base = at - at % self.file_size
        try:
            return (self._reader.file(base), base) if self._has(at) else None
        except FileNotFoundError:
            return None

    def part(self, at: int, size: int) -> bytes | None:
        """A copy of the bytes [at, at + size) of the log; None if they have been removed. Raises
        Corrupt if no record can lie there, or if the file is missing and clean did not remove it.
        """
        if not self._has(at):
            return None
        try:
            return self._reader.record(at, size)
        except FileNotFoundError:
            if at >= self.least:
                raise Corrupt(
                    f"{self.path}/{file_name(at - at % self.file_size)}",
                    at,
                    "the file is missing, and the store has not removed it: stop the store and "
                    "restore the file from a copy",
                ) from None
            return None

    def record_at(self, at: int) -> bytes | None:
        """The bytes of the record that begins at log offset `at`; None if none begins there. Raises
        Corrupt if its lengths, texts or CRCs are wrong.
        """
        room = min(self.end, at - at % self.file_size + self.file_size) - at
        if at < 0 or room < MIN_RECORD_BYTES:
            return None
        head = self.part(at, MIN_RECORD_BYTES)
        if head is None:
            return None
        fields = head_of(head)
        if not fields.is_record or fields.physical_offset != at:
            return None
        size = fields.total_size
        if not MIN_RECORD_BYTES <= size <= room:
            raise Corrupt(self.path, at, f"totalSize {size} with {room} bytes left")
        data = self.part(at, size)
        if data is not None:
            decode_record(data, path=self.path, base=at)
        return data

    def store_time(self, at: int, size: int) -> int:
        """The store time (epoch ms) of the record of `size` bytes at log offset `at`. BEFORE_LOG if
        it has been removed, UNREADABLE if no record of that size can lie there.
        """
        if size < MIN_RECORD_BYTES or at + size > self.end:
            return BEFORE_LOG if at < self.least else UNREADABLE
        head = self.part(at, HEAD_BYTES)
        return BEFORE_LOG if head is None else store_time_of(head)


class ServedQueue:
    """The entries of one queue, below the folder `root` in files of `file_size` bytes. The queue
    has the queue offsets from `least` up to `end`. `since` says if its topic was deleted.
    """

    def __init__(
        self,
        root: Folder,
        topic: str,
        queue_id: int,
        file_size: int,
        *,
        least: Limit,
        end: Limit,
        since: Limit,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.file_size = file_size
        self._root = root
        self._least = least
        self._end = end
        self._since = since
        self._folder: Folder | None = None
        self._reader: QueueReader | None = None

    @property
    def least(self) -> int:
        """The queue offset of the first message that has not been removed."""
        return self._least.load()  # SYNC: queue-min observe

    @property
    def end(self) -> int:
        """The queue offset behind the last dispatched message."""
        return self._end.load()  # SYNC: queue-max observe

    def __str__(self) -> str:
        return f"queue {self.queue_id} of topic {self.topic}"

    def _opened(self) -> Folder:
        """The queue's folder, which exists from its first message on. Raises FileNotFoundError,
        IllegalQuery.
        """
        if self._folder is None:
            with NO_FORK, self._root.folder(self.topic) as parent:
                self._folder = parent.folder(str(self.queue_id))
        self.check_topic()  # after a deletion this may be the folder of a new topic of that name
        return self._folder

    def check_topic(self) -> None:
        """Raises IllegalQuery if the topic has been deleted."""
        if self._since.load() == DELETED:
            raise IllegalQuery(f"topic {self.topic} was deleted while {self} was read")

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` entries from queue offset `first` on, all of one file: (log offset, size,
        tags code). They must exist. Raises FileNotFoundError if the file has been removed.
        """
        return list(ENTRY.iter_unpack(self.view(first, count)))

    def view(self, first: int, count: int) -> memoryview:
        """The bytes of what `entries` returns."""
        if self._reader is None:
            self._reader = QueueReader(self._opened(), self.file_size)
        return self._reader.view(first, count)

    def entry(self, offset: int) -> tuple[int, int, int]:
        """The entry at queue offset `offset`. Raises as `entries`."""
        return self.entries(offset, 1)[0]

    def files(self) -> list[QueueFile]:
        """The files that hold entries, oldest first. Raises FileNotFoundError if clean removes one
        meanwhile.
        """
        end = self.end * ENTRY_SIZE
        if not end:
            return []
        folder = self._opened()
        found = []
        with NO_FORK:
            bases = file_bases(folder)
        for base in bases:
            if base < end:
                wrote = min(end - base, self.file_size)
                modified_ms = folder.about(file_name(base)).modified_ms
                found.append(QueueFile(base, wrote, modified_ms))
        return found

    def patiently(self, read: Callable[[], T]) -> T:
        """The result of `read`. Calls it again if a file was missing and clean has moved the
        queue's minimum meanwhile. Raises Corrupt if a file is missing that clean did not remove.
        """
        while True:
            least = self.least
            try:
                return read()
            except FileNotFoundError as error:
                self.check_topic()
                if self.least == least:
                    raise Corrupt(
                        f"{self._root.path}/{self.topic}/{self.queue_id}",
                        least * ENTRY_SIZE,
                        f"{self} begins at {least}, and a file of it is missing "
                        f"({error.filename}): stop the store and run: silo repair --rebuild",
                    ) from error

    def close(self) -> None:
        with NO_FORK:
            if self._folder is not None:
                self._folder.close()
