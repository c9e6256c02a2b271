"""One queue of delayed messages. The schedule process reads it entry by entry."""

from __future__ import annotations

from ...shm.control import Control
from ..consumequeue.queue import QueueFiles
from ..consumequeue.queue_reader import QueueReader
from ..topics.topic_table import TopicTable

_CHUNK = 256


class DelayedQueue:
    """Entries of a queue from the queue offset `cursor` on. The word `arrival` changes when the
    queue grows.
    """

    def __init__(  # noqa: PLR0917 - plain parts
        self,
        files: QueueFiles,
        table: TopicTable,
        control: Control,
        topic: str,
        queue_id: int,
        slot: int,
    ) -> None:
        self._files = files
        self._topic = topic
        self._queue_id = queue_id
        self.start = table.queue_word(slot, "min_offset")
        self.end = table.queue_word(slot, "max_offset")
        self.arrival = control.arrival(slot)
        self.cursor = 0
        self._reader: QueueReader | None = None
        self._chunk: list[tuple[int, int, int]] = []
        self._chunk_at = 0

    def clamp(self, queue_offset: int) -> int:
        """The queue offset nearest to `queue_offset` between the queue's minimum and its end."""
        return min(max(queue_offset, self.start.load()), self.end.load())

    def peek(self) -> tuple[int, int, int] | None:
        """The entry at the cursor: (log offset, size, tags code); None at the queue's end. Skips
        entries that clean has removed.
        """
        at = self.cursor - self._chunk_at
        if not 0 <= at < len(self._chunk):
            self._chunk = self.following(_CHUNK)
            self._chunk_at = self.cursor
            at = 0
        return self._chunk[at] if self._chunk else None

    def following(self, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` entries from the cursor on. Before, a cursor below the queue's minimum
        moves up to it.
        """
        self.cursor = max(self.cursor, self.start.load())  # SYNC: queue-min observe
        count = min(count, self.end.load() - self.cursor)  # SYNC: queue-max observe
        return self.entries(self.cursor, count) if count > 0 else []

    def entries(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` entries from queue offset `first` on, all of one file. The caller must know
        that they exist. Raises FileNotFoundError if their file has been removed.
        """
        return self._opened().entries(first, count)

    def file(self, first: int) -> tuple[int, memoryview]:
        """As `QueueReader.file`, for entries that exist."""
        return self._opened().file(first)

    def _opened(self) -> QueueReader:
        if self._reader is None:
            folder = self._files.folder(self._topic, self._queue_id)
            self._reader = QueueReader(folder, self._files.file_size)
        return self._reader
