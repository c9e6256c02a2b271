"""The files of a store during a start."""

from __future__ import annotations

import msgspec

from ...conf.settings import Settings
from ..commitlog.log import CommitLog
from ..consumequeue.queue import QueueFiles
from ..disk.paths import StoreFolders
from ..index.file import IndexFiles


class StoreFiles(msgspec.Struct, frozen=True):
    """The log, the queues and the index of one store. `indexed` says whether keys are indexed;
    `delay_levels_ms` are the delays of level 1, 2 and so on.
    """

    folders: StoreFolders
    log: CommitLog
    queues: QueueFiles
    index: IndexFiles
    indexed: bool
    delay_levels_ms: tuple[int, ...]

    @classmethod
    def of(cls, folders: StoreFolders, settings: Settings) -> StoreFiles:
        return cls(
            folders,
            CommitLog(folders, settings.mapped_file_size_commit_log),
            QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue),
            IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num),
            settings.message_index_enable,
            settings.message_delay_level,
        )
