"""`OpenStore`: a running store's files, opened for look-ups."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from ...shm.control import StoreState
from ...shm.protocol.requests import Lease
from ...store.commitlog.holes import Holes
from ...store.disk.files import Folder
from ...store.disk.forks import NO_FORK
from ...store.disk.paths import COMMIT_LOG, CONSUME_QUEUE, INDEX
from ...store.errors import IllegalQuery
from ...store.index.file import IndexFiles
from ...store.index.published import IndexReader, PublishedFile
from ...store.reading.get_message import Transfer
from ...store.reading.running_store import ServedLog, ServedQueue
from ...store.status import AckLevel
from ...store.topics.topic_table import Topic
from ..errors import StoreClosed
from ..forks import abandon_in_child
from ..session import Connection

#: The largest number that a record or a queue entry holds: no offset and no time exceeds it.
FOREVER: Final = 2**63 - 1
#: Unless the caller says otherwise, this many queues are kept open: each costs a descriptor and a
#: mapped file.
_QUEUES_KEPT: Final = 64


class OpenStore:
    """A read-only session with the store in folder `store`: its commit log, queues and index files,
    opened when they are needed. `link` is a session of the caller's own to use, which ends with it.
    At most `queues_kept` queues are kept open. Raises StoreClosed when no store runs there.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        link: Connection | None = None,
        *,
        queues_kept: int = _QUEUES_KEPT,
    ) -> None:
        self._queues_kept = queues_kept
        self._folders: list[Folder] = []
        # Keyed by slot: a topic that was deleted and made again has other queues of the same ids.
        self._queues: OrderedDict[int, ServedQueue] = OrderedDict()
        self._link = link or Connection(store, client="StoreReader")
        self._leased = -1
        abandon_in_child(self)
        try:
            with NO_FORK:
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        config, control = self._link.config, self._link.control
        root = self._keep(Folder.open(self._link.path))
        self.holes = Holes.read(root)
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

    @property
    def undispatched(self) -> int:
        """Bytes of the log that reput has not dispatched yet."""
        return max(0, self.log.end - self._link.control.load("dispatched"))

    @property
    def transactions(self) -> tuple[int, int]:
        """The queue offset below which no half is open, and that below which no op record names an
        open one.
        """
        control = self._link.control
        return control.load("trans_half_next"), control.load("trans_op_next")

    def check_open(self) -> None:
        """Raises StoreClosed when the store has died or stopped, ForkedChild."""
        self._link.check_process()
        stopped = self._link.control.load("state") == StoreState.STOPPED
        if stopped or not self._link.is_alive():
            raise StoreClosed(f"the store at {self._link.shown} stopped")

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
            if len(self._queues) >= self._queues_kept:
                with NO_FORK:
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

    def now_ms(self) -> int:
        """The time (epoch ms) behind which nothing was stored. The store's clock never steps back,
        so it may be ahead of the machine's.
        """
        return max(time.time_ns() // 1_000_000, self._link.control.load("store_time_ms"))

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

    def check_process(self) -> None:
        """Raises ForkedChild in a forked child of the process that opened the store."""
        self._link.check_process()

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the store, and is no forked child of the one that did."""
        return not self._link.forked

    def close(self) -> None:
        """Ends the session and closes all files. May be called again."""
        self._link.close()
        self.abandon()

    def abandon(self) -> None:
        """Closes all files, in a forked child its copies of them (`client/forks.py`)."""
        with NO_FORK:
            while self._queues:
                self._queues.popitem()[1].close()
            while self._folders:
                self._folders.pop().close()
