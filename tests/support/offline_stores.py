"""Golden stores for the tools: unpacked with the file times their manifests were made by."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from support import golden_stores

from silomq.tools.raw.files import read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.conf.settings import Settings

SET = (
    f"mapped_file_size_commit_log={golden_stores.LOG_FILE_SIZE}",
    f"mapped_file_size_consume_queue={golden_stores.QUEUE_FILE_SIZE}",
    f"max_hash_slot_num={golden_stores.INDEX_SLOTS}",
    f"max_index_num={golden_stores.INDEX_ENTRIES}",
)


def settings() -> Settings:
    return read_settings(None, SET)


def unpack(name: str, into: Path) -> golden_stores.Golden:
    """The archive keeps whole seconds; a look-up by time depends on the milliseconds."""
    store = golden_stores.unpack(name, into)
    for file in store.of("file"):
        os.utime(store.path / file["path"], ns=(file["mtimeMillis"] * 1_000_000,) * 2)
    return store


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Times and hashes of everything below a folder: equal means that nothing was touched."""
    found = {}
    for path in sorted(folder.rglob("*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (path.lstat().st_mtime_ns, digest)
    return found
