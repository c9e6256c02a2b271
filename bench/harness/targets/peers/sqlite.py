"""SQLite with a write-ahead log, in each worker's process: there is no server."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from typing import TYPE_CHECKING

from ..target import Durability, Facts
from . import sqlite_client
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted


def facts(wanted: Wanted) -> Facts:
    """What a COMMIT means: SQLite's documents on `PRAGMA synchronous`."""
    sync = wanted.flush == "sync"
    return Facts(
        title="SQLite (WAL), in process",
        version=sqlite3.sqlite_version,
        acknowledged="COMMIT has synced the write-ahead log to the disk (synchronous=FULL)."
        if sync
        else "COMMIT has written the write-ahead log, not synced it (synchronous=NORMAL).",
        durability=Durability.DISK if sync else Durability.SYSTEM_MEMORY,
        send_calls=frozenset({"send", "batch"}),
        read_calls=frozenset({"poll"}),
    )


class SQLite:
    """A table for each topic. Queues are not told apart: a table has one order."""

    name = "sqlite"

    def missing(self) -> str:
        """Python has it."""
        return ""

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        file = folder / "messages.sqlite"
        sqlite_client.create(file, wanted.topics)
        mode = "FULL" if wanted.flush == "sync" else "NORMAL"
        worker = [sys.executable, "-P", "-m", sqlite_client.__name__]
        yield Server(facts(wanted), {"file": str(file), "synchronous": mode}, worker)
