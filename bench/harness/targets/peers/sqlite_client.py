"""The worker that sends and reads by SQLite: see `sqlite.py`.

A group's progress is a row. A member takes messages and moves the row on in one transaction, so two
members never have the same message.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING

from ...load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ...load._fates import Fates
    from ...load.client import Bytes
    from ...load.protocol import Order

_BUSY_S = 60.0
_REST_S = 0.0005


def _table(topic: str) -> str:
    return '"' + f"topic {topic}".replace('"', '""') + '"'


def create(file: Path, topics: Iterable[str]) -> None:
    """Makes the file, with a table for each topic."""
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "CREATE TABLE progress (party TEXT, topic TEXT, number INTEGER,"
            " PRIMARY KEY (party, topic))"
        )
        for topic in topics:
            database.execute(
                f"CREATE TABLE {_table(topic)}"
                " (number INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT, key TEXT, body BLOB)"
            )


class _Connection:
    """What senders and readers share."""

    def __init__(self, order: Order) -> None:
        self._database = sqlite3.connect(
            order.endpoint["file"], timeout=_BUSY_S, isolation_level=None
        )
        self._database.execute(f"PRAGMA synchronous = {order.endpoint['synchronous']}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that has the lock of writers from its begin on."""
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:
            yield

    def close(self) -> None:
        self._database.close()


class SQLiteSender(_Connection):
    """Each send is a transaction, and each batch."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._inserts = {
            topic: f"INSERT INTO {_table(topic)} (tag, key, body) VALUES (?, ?, ?)"  # noqa: S608
            for topic in order.topics
        }

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        self._database.execute(self._inserts[topic], (tag, key, body))

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        rows = [(tag, key, body) for body in bodies]
        with self._writing():
            self._database.executemany(self._inserts[topic], rows)

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        raise NotImplementedError

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        raise NotImplementedError

    def wait(self, timeout_s: float) -> None:
        raise NotImplementedError

    def finish(self, timeout_s: float) -> None:
        raise NotImplementedError


class SQLiteReader(_Connection):
    """A database cannot wait for a row: a reader that finds nothing looks again after 0.5 ms."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._group, self._most = order.group, order.most
        self._topics = list(order.topics)
        self._own = dict.fromkeys(self._topics, 0)
        with self._writing():
            self._database.executemany(
                "INSERT OR IGNORE INTO progress VALUES (?, ?, 0)",
                [(self._group, topic) for topic in self._topics],
            )

    def read(self, timeout_s: float) -> list[bytes]:
        deadline = time.monotonic() + timeout_s
        while True:
            for _ in self._topics:
                topic = self._topics.pop(0)
                self._topics.append(topic)
                if found := self._take(topic):
                    return found
            if time.monotonic() >= deadline:
                return []
            time.sleep(_REST_S)

    def _select(self, topic: str, behind: int) -> list[tuple[int, bytes]]:
        return self._database.execute(
            f"SELECT number, body FROM {_table(topic)}"  # noqa: S608
            " WHERE number > ? ORDER BY number LIMIT ?",
            (behind, self._most),
        ).fetchall()

    def _take(self, topic: str) -> list[bytes]:
        if not self._group:
            rows = self._select(topic, self._own[topic])
            self._own[topic] = rows[-1][0] if rows else self._own[topic]
            return [body for _, body in rows]
        where = (self._group, topic)
        ask = "SELECT number FROM progress WHERE party = ? AND topic = ?"
        # Without the lock first: who finds nothing does not keep writers from writing.
        if not self._select(topic, self._database.execute(ask, where).fetchone()[0])[:1]:
            return []
        with self._writing():
            rows = self._select(topic, self._database.execute(ask, where).fetchone()[0])
            if rows:
                self._database.execute(
                    "UPDATE progress SET number = ? WHERE party = ? AND topic = ?",
                    (rows[-1][0], *where),
                )
        return [body for _, body in rows]

    def listen(self, take: Callable[[Bytes], None]) -> None:
        raise NotImplementedError


def open_sender(order: Order, fates: Fates) -> tuple[SQLiteSender, dict[str, str]]:
    """See `load.client.OpenSender`. Nothing is acknowledged later than its call."""
    del fates
    return SQLiteSender(order), {"sqlite": sqlite3.sqlite_version}


def open_reader(order: Order) -> tuple[SQLiteReader, dict[str, str]]:
    """See `load.client.OpenReader`."""
    return SQLiteReader(order), {"sqlite": sqlite3.sqlite_version}


if __name__ == "__main__":
    main(open_sender, open_reader)
