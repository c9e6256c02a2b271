"""What RocketMQ's store and its broker have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..target import Durability, NotOffered

if TYPE_CHECKING:
    from ..target import Wanted


def durability(wanted: Wanted) -> Durability:
    """What an acknowledged message survives: `CommitLog` and its flush services. A pool is direct
    memory of the process (transientStorePool).
    """
    if wanted.pool:
        return Durability.PROCESS_MEMORY
    return Durability.DISK if wanted.flush == "sync" else Durability.SYSTEM_MEMORY


def store_settings(wanted: Wanted) -> dict[str, str]:
    """The settings of `MessageStoreConfig` for a workload. Raises NotOffered."""
    if wanted.pool and wanted.flush == "sync":
        raise NotOffered("RocketMQ uses its pool only with store.flush = async: choose one of them")
    return {
        "flushDiskType": "SYNC_FLUSH" if wanted.flush == "sync" else "ASYNC_FLUSH",
        "mappedFileSizeCommitLog": str(wanted.file_size),
        "transientStorePoolEnable": str(wanted.pool).lower(),
    }
