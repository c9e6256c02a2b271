"""The commit log and one consume queue of a running store, as a reader's process sees them: files
mapped read-only, limits from the shared memory.

Clean moves the limits first and removes files then, so whoever misses a file looks at the limits
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..commitlog.log_reader import LogReader
from ..consumequeue.queue import ENTRY_SIZE
from ..consumequeue.queue_reader import QueueReader
from ..consumequeue.time_lookup import BEFORE_LOG, UNREADABLE, QueueFile
from ..disk.paths import file_bases, file_name
from ..errors import Corrupt, IllegalQuery
from ..record.fields import HEAD_BYTES, head_of, store_time_of
from ..record.format import MIN_RECORD_BYTES, decode_record
from ..topics.topic_table import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...shm._words import Word
    from ..disk.files import Folder

T = TypeVar("T")

assert HEAD_BYTES < MIN_RECORD_BYTES


class ServedLog:
    """Records of the log below `folder`, files of `file_size` bytes; it holds the addresses from
    `least` up to `end`.
    """

    def __init__(self, folder: Folder, file_size: int, least: Word, end: Word) -> None:
        self.path = folder.path
        self.file_size = file_size
        self._least = least
        self._end = end
        self._reader = LogReader(folder, file_size)
        self._forgotten = 0  # `least` when removed files were last let go of

    @property
    def least(self) -> int:
        """Address of the first byte that is still there."""
        return self._least.load()

    @property
    def end(self) -> int:
        """Address behind the last record."""
        return self._end.load()

    def part(self, at: int, size: int) -> bytes | None:
        """The bytes [at, at + size) of one file; None when they were removed. Raises Corrupt where
        no record can be.
        """
        least = self.least
        if least != self._forgotten:  # what is mapped would keep its disk space
            self._reader.forget(least - least % self.file_size)
            self._forgotten = least
        if at < least:
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
        """The whole record that begins at address `at`; None where none begins. Raises Corrupt for
        one whose lengths, texts or CRCs are wrong.
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
        """Store time (epoch ms) of the record of `size` bytes at `at`; BEFORE_LOG when it was
        removed, UNREADABLE when nothing of that size can be there.
        """
        if size < MIN_RECORD_BYTES or at + size > self.end:
            return BEFORE_LOG if at < self.least else UNREADABLE
        head = self.part(at, HEAD_BYTES)
        return BEFORE_LOG if head is None else store_time_of(head)


class ServedQueue:
    """Entries of one queue of a topic below `root`, files of `file_size` bytes; it holds the queue
    offsets from `least` up to `end`.
    """

    def __init__(
        self,
        root: Folder,
        topic: str,
        queue_id: int,
        file_size: int,
        *,
        least: Word,
        end: Word,
        since: Word,
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
        """Queue offset of the first message that is still there."""
        return self._least.load()  # SYNC: queue-min observe

    @property
    def end(self) -> int:
        """Queue offset behind the last dispatched message."""
        return self._end.load()  # SYNC: queue-max observe

    def __str__(self) -> str:
        return f"queue {self.queue_id} of topic {self.topic}"

    def _opened(self) -> Folder:
        """A queue has a folder from its first message on."""
        if self._folder is None:
            with self._root.folder(self.topic) as parent:
                self._folder = parent.folder(str(self.queue_id))
        self.check_topic()  # else this may be the folder of a new topic of that name
        return self._folder

    def check_topic(self) -> None:
        """Raises IllegalQuery when the topic was deleted."""
        if self._since.load() == DELETED:
            raise IllegalQuery(f"topic {self.topic} was deleted while {self} was read")

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` entries from queue offset `first` on, all of one file: (log address, size,
        tags code). They must exist. Raises FileNotFoundError when the file is gone.
        """
        if self._reader is None:
            self._reader = QueueReader(self._opened(), self.file_size)
        return self._reader.entries(first, count)

    def entry(self, offset: int) -> tuple[int, int, int]:
        """One entry; as `entries`."""
        return self.entries(offset, 1)[0]

    def files(self) -> list[QueueFile]:
        """The files that hold entries, oldest first. Raises FileNotFoundError when one goes
        meanwhile.
        """
        end = self.end * ENTRY_SIZE
        if not end:
            return []
        folder = self._opened()
        found = []
        for base in file_bases(folder):
            if base < end:
                wrote = min(end - base, self.file_size)
                modified_ms = folder.about(file_name(base)).modified_ms
                found.append(QueueFile(base, wrote, modified_ms))
        return found

    def patiently(self, read: Callable[[], T]) -> T:
        """What `read` gives; once more when a file went from under it because clean had moved the
        queue's beginning. Raises Corrupt when a file is missing that nobody removed.
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
        if self._folder is not None:
            self._folder.close()
