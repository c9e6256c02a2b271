"""Features of RocketMQ that this store does not have: a store that uses one is refused.

Each leaves traces in the store's folder, by which it is found. A start looks before it makes or
changes anything; `silo verify`, the manifest and Spark look too, because they would give wrong
answers. RocketMQ: `MessageStoreConfig`, `StorePathConfigHelper`, `TopicAttributes`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..config import topics as topics_json
from ..disk.files import Folder
from ..disk.paths import COMMIT_LOG, CONFIG, CONSUME_QUEUE, CUT_OFF, OURS, TOPICS, file_bases
from ..errors import Corrupt, UnsupportedFeature

_BATCH: Final = (
    "batch consume queues (topics with queue.type=BatchCQ)",
    "consume these topics and delete them with RocketMQ",
)
_COMPACTION: Final = (
    "compacted topics (cleanup.policy=COMPACTION)",
    "consume these topics and delete them with RocketMQ",
)
_ROCKSDB_CONFIG: Final = (
    "topics, groups and offsets in RocksDB (configManagerVersion, rocksdb config)",
    "have RocketMQ export them to JSON (mqadmin rocksDBConfigToJson), and move the folder away",
)
#: Folder of the store -> the feature of which files in it are a trace, and what to do.
_FOLDERS: Final[dict[str, tuple[str, str]]] = {
    "batchconsumequeue": _BATCH,
    "compaction/compactionLog": _COMPACTION,
    "compaction/compactionCq": _COMPACTION,
    "config/topics": _ROCKSDB_CONFIG,
    "config/subscriptionGroups": _ROCKSDB_CONFIG,
    "config/consumerOffsets": _ROCKSDB_CONFIG,
    "config/rdb": _ROCKSDB_CONFIG,
    "kvStore": (
        "POP consumption kept in RocksDB (popConsumerKVServiceEnable)",
        "let its consumers finish under RocketMQ, and move the folder away",
    ),
}
#: File of the store -> the same.
_FILES: Final[dict[str, tuple[str, str]]] = {
    "consumequeue/CURRENT": (
        "consume queues in RocksDB (storeType=defaultRocksDB)",
        "there is no way to turn them into files: consume the messages with RocketMQ",
    ),
    "epochFileCheckpoint": (
        "replication by a controller (enableControllerMode)",
        "move the file away if this copy has left its replicas for good",
    ),
    "config/tieredStoreMetadata.json": (
        "tiered storage (TieredMessageStore)",
        "move the file away if the messages in the other tier are no longer needed",
    ),
}
_DLEDGER: Final = (
    "a commit log of DLedger (enableDLegerCommitLog)",
    "there is no way to turn it into a plain one: consume the messages with RocketMQ",
)
_ELSEWHERE: Final = (
    "a commit log in other folders (storePathCommitLog)",
    f"move all its files into {COMMIT_LOG}/; if they are lost, move {CONSUME_QUEUE}/ away as well",
)
#: Topic attribute and its value -> the feature. Old files have the name with a sign.
_ATTRIBUTES: Final = {
    ("queue.type", "BatchCQ"): _BATCH,
    ("cleanup.policy", "COMPACTION"): _COMPACTION,
}


class Trace(NamedTuple):
    """A trace of a feature: the file or folder, relative to the store's; what it is; advice."""

    path: str
    feature: str
    advice: str


def refuse_unsupported(path: str | os.PathLike[str]) -> None:
    """Raises UnsupportedFeature if the folder holds a store with features that this one does not
    have, and Corrupt if it is a backup that was cut off. Changes nothing. Raises OSError.
    """
    try:
        root = Folder.open(path)
    except (FileNotFoundError, NotADirectoryError):
        return  # no store yet, or no folder: the caller says so
    with root:
        if root.has(CUT_OFF):
            why = (
                "a backup or its restore was cut off here, and anything may be missing: take a "
                "whole backup (silo backups lists them), or restore once more"
            )
            raise Corrupt(f"{os.fspath(path)}/{CUT_OFF}", 0, why)
        traces = list(find_traces(root))
    if traces:
        raise UnsupportedFeature(
            [(f"{os.fspath(path)}/{trace.path}", trace.feature, trace.advice) for trace in traces]
        )


def find_traces(root: Folder) -> Iterator[Trace]:
    """The traces of unsupported features, the first of each feature and place. Raises OSError."""
    for path, (feature, advice) in _FOLDERS.items():
        if (found := _first_file(root, path)) is not None:
            yield Trace(found, feature, advice)
    for path, (feature, advice) in _FILES.items():
        if _size(root, path) > 0:
            yield Trace(path, feature, advice)
    for name in root.names():
        if name.startswith("dledger-") and (found := _first_file(root, name)) is not None:
            yield Trace(found, *_DLEDGER)
    yield from _topics_with_attributes(root)
    yield from _queues_without_log(root)


def _topics_with_attributes(root: Folder) -> Iterator[Trace]:
    try:
        table, _ = topics_json.load(f"{root.path}/{CONFIG}/{TOPICS}")
    except Corrupt:
        return  # the start and `silo verify` report that themselves
    for name, topic in sorted(table.topics.items()):
        for (attribute, value), (feature, advice) in _ATTRIBUTES.items():
            stored = topic.attributes.get(attribute) or topic.attributes.get(f"+{attribute}") or ""
            if stored.upper() == value.upper():
                yield Trace(f"{CONFIG}/{TOPICS}, topic {name}", feature, advice)


def _queues_without_log(root: Folder) -> Iterator[Trace]:
    """A store that was never this one's, with queues but without any commit-log file."""
    log = _folder(root, COMMIT_LOG)
    if log is not None:
        with log:
            if file_bases(log):
                return
    queues = _first_file(root, CONSUME_QUEUE)
    if queues is not None and not root.has(OURS):
        yield Trace(queues, *_ELSEWHERE)


def _first_file(folder: Folder, path: str) -> str | None:
    """The path of some file in or below the folder at `path`; None if there is none."""
    found = _folder(folder, path)
    if found is None:
        return None
    with found:
        for name in found.names():
            if not found.about(name).is_folder:
                return f"{path}/{name}"
            below = _first_file(found, name)
            if below is not None:
                return f"{path}/{below}"
    return None


def _folder(folder: Folder, path: str) -> Folder | None:
    try:
        with folder.parent(path) as (holder, name):
            return holder.folder(name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _size(folder: Folder, path: str) -> int:
    """The size of a file, bytes; 0 if there is none."""
    try:
        with folder.parent(path) as (holder, name):
            return holder.size(name)
    except (FileNotFoundError, NotADirectoryError):
        return 0
