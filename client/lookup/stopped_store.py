"""`StoppedStore`: the files of a store that does not run, opened for look-ups. Nothing is written,
and a start is not kept waiting.

It shows what the next start will show, less the records that this start will dispatch: those behind
the newest queue entry of a store that was killed. `undispatched` counts their bytes. The sizes of
files that only RocketMQ has used are read off the files.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...conf.settings import load
from ...store.commitlog.holes import Holes
from ...store.config import topics as topics_json
from ...store.consumequeue.queue import (
    BLANK_SIZE,
    ENTRY_SIZE,
    QueueFiles,
    count_entries,
    queue_ids,
    read_entry,
)
from ...store.disk.files import Folder
from ...store.disk.forks import NO_FORK
from ...store.disk.paths import (
    COMMIT_LOG,
    CONFIG,
    CONSUME_QUEUE,
    INDEX,
    OURS,
    TOPICS,
    file_bases,
)
from ...store.errors import IllegalQuery
from ...store.index.file import HEADER, IndexFiles, shape_of
from ...store.index.published import PublishedFile
from ...store.reading.get_message import Transfer
from ...store.reading.running_store import ServedLog, ServedQueue
from ...store.recovery import checkpoint, durable_progress, power_cut
from ...store.recovery.layout import known_sizes
from ...store.recovery.rocketmq_progress import behind_newest_entry
from ...store.recovery.unsupported import refuse_unsupported
from ...store.retention.topic_limits import NO_LIMITS, TopicLimits, limits_of
from ...store.topics.deletions import Deletions
from ..admin.topic_info import QueueInfo, TopicInfo, TopicStatus
from ..errors import StoreClosed, not_closed
from ..forks import abandon_in_child, forked_child
from .stopped_log import first_queued, log_end, size_of_single

_QUEUES_KEPT: Final = 64


class Fixed(NamedTuple):
    """A limit of a store that does not run: nobody moves it."""

    value: int

    def load(self) -> int:
        """The limit."""
        return self.value


@dataclass(frozen=True, slots=True)
class StoppedTopic:
    """One topic as the files have it: its permission, and how many queues it has."""

    name: str
    perm: int
    write_queue_nums: int
    read_queue_nums: int
    order: bool
    count: int
    limits: TopicLimits = NO_LIMITS

    @property
    def slots(self) -> range:
        """One number for each queue, in the order of their ids."""
        return range(self.count)


class StoppedStore:
    """The store in the folder `store`, as its files show it. Raises StoreClosed if there is no
    store, Corrupt or StoreError for files that cannot be read, OSError.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self.path = os.fspath(store)
        self._folders: list[Folder] = []
        self._queues: OrderedDict[tuple[str, int], ServedQueue] = OrderedDict()
        #: Whether this process opened the store, and is no forked child of the one that did.
        self.is_mine = True
        abandon_in_child(self)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        refuse_unsupported(self.path)
        try:
            with NO_FORK:
                root = self._keep(Folder.open(self.path))
                log = self._keep(root.folder(COMMIT_LOG))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StoreClosed(f"{self.path} is no store: it has no folder {COMMIT_LOG}") from error
        self.holes = Holes.read(root)
        known = known_sizes(self.path)
        self._settings = load(
            environ={}, overrides=[f"store_path={self.path}"], remembered=lambda _: known
        )
        self._sizes_are_certain = known.certain
        bases = file_bases(log)
        size = self._settings.mapped_file_size_commit_log
        if len(bases) == 1 and not known.certain:
            size = size_of_single(log, bases[0]) or size
        least = bases[0] if bases else 0
        dispatched, crashed = self._dispatched(root)
        end = log_end(log, size, bases, max(least, dispatched or 0))
        self.log = ServedLog(log, size, Fixed(least), Fixed(end))
        self._limit = min(end, dispatched) if crashed and dispatched is not None else end
        self._queue_root = self._maybe(root, CONSUME_QUEUE)
        self._index = self._maybe(root, INDEX)
        deleted = self._deleted(root)
        self._topics = self._read_topics(root, deleted)
        reached = self._limit
        if not crashed and dispatched != end:
            reached = max(least, dispatched or 0, min(end, self._behind_entries()))
        self.undispatched = end - first_queued(log, size, reached, end, deleted)

    def _behind_entries(self) -> int:
        """The log offset behind the newest record to which a queue entry leads."""
        if self._queue_root is None:
            return 0
        size = self._settings.mapped_file_size_consume_queue
        return behind_newest_entry(QueueFiles(self._queue_root, size))

    def _deleted(self, root: Folder) -> dict[str, int]:
        """The deleted topics, and the log offset below which their records lie."""
        ours = self._maybe(root, OURS)
        topics = Deletions.read(ours).topics if ours else {}
        return {name: deletion.below for name, deletion in topics.items()}

    def _dispatched(self, root: Folder) -> tuple[int | None, bool]:
        """The log offset below which all is known to be dispatched (None: not known), and whether
        entries of later records cannot be trusted, because the machine lost power.
        """
        ours = self._maybe(root, OURS)
        record = durable_progress.read(ours) if ours else None
        if ours is None or record is None:
            return None, False
        if not durable_progress.agrees(ours, checkpoint.read(root)):
            return None, False  # RocketMQ has run since
        lost = not record.clean and power_cut.machine_stopped(ours)
        return record.progress.dispatched, lost

    def _read_topics(self, root: Folder, gone: Mapping[str, int]) -> dict[str, StoppedTopic]:
        saved, _ = topics_json.load(f"{root.path}/{CONFIG}/{TOPICS}")
        counts = {name: self._count_queues(name) for name in self._queue_folders()}
        found = {
            name: StoppedTopic(
                name,
                config.perm,
                config.write_queue_nums,
                config.read_queue_nums,
                config.order,
                max(config.write_queue_nums, config.read_queue_nums, counts.get(name, 0)),
                limits_of(config.attributes),
            )
            for name, config in saved.topics.items()
        }
        for name, count in counts.items():
            if name not in found and name not in gone and count:
                perm = topics_json.DEFAULT_PERM
                found[name] = StoppedTopic(name, perm, count, count, order=False, count=count)
        return found

    def _queue_folders(self) -> list[str]:
        return self._queue_root.names() if self._queue_root else []

    def _count_queues(self, topic: str) -> int:
        """One more than the greatest id of a queue that has a folder."""
        assert self._queue_root is not None
        missing = (FileNotFoundError, NotADirectoryError)
        with contextlib.suppress(*missing), self._queue_root.folder(topic) as folder:
            return max(queue_ids(folder), default=-1) + 1
        return 0

    def _keep(self, folder: Folder) -> Folder:
        self._folders.append(folder)
        return folder

    def _maybe(self, root: Folder, name: str) -> Folder | None:
        with contextlib.suppress(FileNotFoundError), NO_FORK:
            return self._keep(root.folder(name))
        return None

    @property
    def transfer(self) -> Transfer:
        """The limits of one read."""
        return Transfer.of(self._settings)

    def check_open(self) -> None:
        """Raises StoreClosed after `close`, ForkedChild."""
        self.check_process()
        if not self._folders:
            raise StoreClosed(f"this reader of {self.path} is closed")

    def topics(self) -> list[TopicInfo]:
        """All topics and how much they hold, sorted by name."""
        return [
            TopicInfo(
                t.name,
                t.write_queue_nums,
                t.read_queue_nums,
                t.perm,
                self._messages(t),
                t.order,
                t.limits,
            )
            for t in sorted(self._topics.values(), key=lambda topic: topic.name)
        ]

    def _messages(self, topic: StoppedTopic) -> int:
        queues = (self.queue(topic.name, queue_id) for queue_id in range(topic.read_queue_nums))
        return sum(queue.end - queue.least for queue in queues)

    def topic_status(self, name: str) -> TopicStatus:
        """One topic with its queues. Raises IllegalQuery when there is none."""
        topic = self.topic(name)
        queues = tuple(
            QueueInfo(
                queue_id,
                self.queue(name, queue_id).least,
                self.queue(name, queue_id).end,
                queue_id < topic.read_queue_nums,
                queue_id < topic.write_queue_nums,
            )
            for queue_id in topic.slots
        )
        numbers = (topic.write_queue_nums, topic.read_queue_nums, topic.perm, self._messages(topic))
        return TopicStatus(name, *numbers, topic.order, topic.limits, queues)

    def topic(self, name: str) -> StoppedTopic:
        """The topic of this name. Raises IllegalQuery when there is none, StoreClosed."""
        self.check_open()
        found = self._topics.get(name)
        if found is None:
            raise IllegalQuery(f"topic {name[:255]!a} does not exist; silo topics lists them")
        return found

    def queue(self, topic: str, queue_id: int) -> ServedQueue:
        """A queue of a topic. Raises IllegalQuery when the store has no such queue, StoreClosed."""
        count = self.topic(topic).count
        if not 0 <= queue_id < count:
            raise IllegalQuery(f"queue {queue_id} of topic {topic}: it has queues 0 to {count - 1}")
        key = topic, queue_id
        found = self._queues.pop(key, None)
        if found is None:
            least, end = self._bounds(topic, queue_id)
            size = self._settings.mapped_file_size_consume_queue
            root = self._queue_root or self._folders[0]  # without queues none is opened
            found = ServedQueue(
                root, topic, queue_id, size, least=Fixed(least), end=Fixed(end), since=Fixed(0)
            )
            if len(self._queues) >= _QUEUES_KEPT:
                with NO_FORK:
                    self._queues.popitem(last=False)[1].close()
        self._queues[key] = found
        return found

    def _bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The queue offsets that the files hold: the first whose record is still there, and that
        behind the last.
        """
        if self._queue_root is None:
            return 0, 0
        size = self._settings.mapped_file_size_consume_queue
        try:
            with self._queue_root.folder(topic) as parent:
                folder = parent.folder(str(queue_id))
        except FileNotFoundError:
            return 0, 0
        with folder:
            bases = file_bases(folder)
            end = count_entries(folder, bases, size, self._limit)
            low, high = (bases[0] // ENTRY_SIZE if bases else 0), end
            while low < high:
                middle = (low + high) // 2
                at, length, _ = read_entry(folder, size, middle)
                if at >= self.log.least and length != BLANK_SIZE:
                    high = middle
                else:
                    low = middle + 1
            return low, end

    def queue_if_any(self, topic: str, queue_id: int) -> ServedQueue | None:
        """A queue of a topic; None when the store has no such queue. Raises StoreClosed."""
        self.check_open()
        found = self._topics.get(topic)
        if found is None or not 0 <= queue_id < found.count:
            return None
        return self.queue(topic, queue_id)

    def index_files(self) -> Sequence[PublishedFile]:
        """The index files, oldest first. Raises IllegalQuery when the store has none."""
        settings = self._settings
        if self._index is None:
            raise IllegalQuery("the store has no index, so nothing is found by key")
        files = IndexFiles(self._index, settings.max_hash_slot_num, settings.max_index_num)
        found = []
        for name in files.names():
            if not self._sizes_are_certain and self._index.size(str(name)) != files.size:
                shape = shape_of(self._index, name)
                files = IndexFiles(self._index, *shape) if shape else files
            view = memoryview(files.open(name, writable=False))
            header = HEADER.unpack_from(view)
            count = min(max(1, header[5]), files.entries)
            found.append(PublishedFile(files, name, view, (header[0], header[1], count)))
        return found

    def now_ms(self) -> int:
        """The time (epoch ms) behind which nothing was stored."""
        return time.time_ns() // 1_000_000

    def lease(self, offset: int) -> None:
        """Does nothing: no process removes files."""

    def check_process(self) -> None:
        """Raises ForkedChild in a forked child of the process that opened the store."""
        if not self.is_mine:
            raise forked_child("StoreReader", self.path)

    def abandon(self) -> None:
        """Closes the copies of files that a forked child has (`client/forks.py`)."""
        self.is_mine = False
        self.close()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._folders:
            self.close()
            _warn(not_closed("StoreReader", self.path), source=self)

    def close(self) -> None:
        """Closes all files."""
        with NO_FORK:
            while self._queues:
                self._queues.popitem()[1].close()
            while self._folders:
                self._folders.pop().close()
