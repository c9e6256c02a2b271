"""`OpenStore`: a running store's files, opened for look-ups, and the checks of look-up
arguments.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from ...shm.control import StoreState
from ...shm.protocol.requests import Lease
from ...store.disk.files import Folder
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE, INDEX
from ...store.errors import IllegalQuery
from ...store.index.file import IndexFiles
from ...store.index.published import IndexReader, PublishedFile
from ...store.reading.get_message import Transfer
from ...store.reading.running_store import ServedLog, ServedQueue
from ...store.status import AckLevel
from ...store.topics.topic_table import Topic
from ..errors import StoreClosed
from ..session import Connection

#: The largest number that a record or a queue entry holds: no offset and no time exceeds it.
FOREVER: Final = 2**63 - 1
#: At most this many queues are kept open: each costs a descriptor and a mapped file.
_QUEUES_KEPT: Final = 64


class OpenStore:
    """A read-only session with the store in folder `store`: its commit log, queues and index files,
    opened when they are needed. Raises StoreClosed when no store runs there.
    """

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self._folders: list[Folder] = []
        # Keyed by slot: a topic that was deleted and made again has other queues of the same ids.
        self._queues: OrderedDict[int, ServedQueue] = OrderedDict()
        self._link = Connection(store)
        self._leased = -1
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        config, control = self._link.config, self._link.control
        root = self._keep(Folder.open(self._link.path))
        self._queue_root = self._keep(root.folder(CONSUME_QUEUE))
        # With the memory pool, records that are not committed yet are in no file.
        end = control.word("committed" if config.level == AckLevel.MEMORY else "wrote")
        self.log = ServedLog(
            self._keep(root.folder(COMMIT_LOG)),
            config.file_size_commit_log,
            control.word("min_offset"),
            end,
        )
        self._index: IndexReader | None = None
        if config.index_entries:
            index = self._keep(root.folder(INDEX))
            files = IndexFiles(index, config.index_slots, config.index_entries)
            self._index = IndexReader(files, control)

    def _keep(self, folder: Folder) -> Folder:
        self._folders.append(folder)
        return folder

    @property
    def transfer(self) -> Transfer:
        """The store's limits of one read."""
        return self._link.config.transfer

    def check_open(self) -> None:
        """Raises StoreClosed when the store has died or stopped."""
        stopped = self._link.control.load("state") == StoreState.STOPPED
        if stopped or not self._link.is_alive():
            raise StoreClosed(f"the store at {self._link.path} stopped")

    def topic(self, name: str) -> Topic:
        """The topic of this name. Raises IllegalQuery when there is none, StoreClosed."""
        self.check_open()
        found = self._link.table.find(name)
        if found is None:
            raise IllegalQuery(f"topic {name[:255]!a} does not exist; silo topics lists them")
        return found

    def queue(self, topic: str, queue_id: int) -> ServedQueue:
        """A queue of a topic. Raises IllegalQuery when the store has no such queue, StoreClosed."""
        slots = self.topic(topic).slots
        if not 0 <= queue_id < len(slots):
            raise IllegalQuery(
                f"queue {queue_id} of topic {topic}: it has queues 0 to {len(slots) - 1}"
            )
        table, slot = self._link.table, slots[queue_id]
        found = self._queues.pop(slot, None)
        if found is None:
            found = ServedQueue(
                self._queue_root,
                topic,
                queue_id,
                self._link.config.file_size_consume_queue,
                least=table.queue_word(slot, "min_offset"),
                end=table.queue_word(slot, "max_offset"),
                since=table.queue_word(slot, "since"),
            )
            if len(self._queues) >= _QUEUES_KEPT:
                self._queues.popitem(last=False)[1].close()
        self._queues[slot] = found
        return found

    def queue_if_any(self, topic: str, queue_id: int) -> ServedQueue | None:
        """A queue of a topic; None when the store has no such queue. Raises StoreClosed."""
        self.check_open()
        found = self._link.table.find(topic)
        if found is None or not 0 <= queue_id < len(found.slots):
            return None
        return self.queue(topic, queue_id)

    def index_files(self) -> Sequence[PublishedFile]:
        """The index files, oldest first. Raises IllegalQuery when the store keeps none."""
        if self._index is None:
            raise IllegalQuery(
                "the store keeps no index, so nothing is found by key: start it with "
                "message_index_enable; silo repair --rebuild indexes what is there"
            )
        return self._index.look()

    def check_time(self, name: str, timestamp_ms: int) -> None:
        """Raises IllegalQuery for a time (epoch ms) that is negative or in the future."""
        check_number(name, timestamp_ms)
        # The store's clock never steps back, so it may be ahead of the machine's.
        now = max(time.time_ns() // 1_000_000, self._link.control.load("store_time_ms"))
        if timestamp_ms > now:
            raise IllegalQuery(
                f"{name} {timestamp_ms} is in the future: it is {now} (milliseconds since 1970)"
            )

    def lease(self, offset: int) -> None:
        """Asks the store to keep the commit-log file at `offset` for a while, because it is being
        read. Sends one request for each file, and none for the file that append writes.
        """
        size = self._link.config.file_size_commit_log
        base = offset - offset % size
        if base + size > self._link.control.load("wrote"):
            base = -1  # clean never removes the file that append writes
        if base != self._leased:
            self._link.request(Lease(None if base < 0 else base))
            self._leased = base

    def close(self) -> None:
        """Ends the session and closes all files."""
        self._link.close()
        while self._queues:
            self._queues.popitem()[1].close()
        while self._folders:
            self._folders.pop().close()


def check_number(name: str, value: object) -> None:
    """Raises IllegalQuery for a value that cannot be an offset, a number or a time."""
    if not isinstance(value, int) or not 0 <= value <= FOREVER:
        raise IllegalQuery(f"{name} {value!r}: a whole number from 0 to 2^63 - 1")


def check_limit(name: str, value: object) -> None:
    """Raises IllegalQuery for a limit below 1."""
    if not isinstance(value, int) or value < 1:
        raise IllegalQuery(f"{name} {value!r}: a whole number from 1 on")
