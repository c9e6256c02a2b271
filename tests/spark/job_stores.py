"""Stores for the tests of jobs: many small files, keys and tags of all kinds, then stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.harness import StoreProcess, eventually
from support.small_settings import options, pairs

from silomq import Admin, Producer
from silomq.tools.raw.files import read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.conf.settings import Settings

TAGS = (None, "a", "b\u00e4b", "\U0001f600z")
KEYS = (None, "k1 k2", "single", "\u00f6\U0001f600 b")


def settings_of(store: StoreProcess) -> Settings:
    return read_settings(None, pairs(store.settings))


def options_of(store: StoreProcess) -> list[str]:
    """The store's settings for a command line."""
    return options(store.settings)


def await_dispatch(path: Path) -> None:
    """Waits until everything that was sent is in its queues and the index."""
    with Admin(path) as admin:
        wrote = admin.status()["wrote"]
        eventually(lambda: admin.status()["dispatched"] >= wrote, "dispatch has caught up")


def fill(path: Path, count: int, *, topics: int = 5) -> None:
    """Sends messages whose body says their number; number i is born at 1,700,000,000,000 + i ms."""
    with Producer(path) as producer:
        for i in range(count):
            producer.send_async(
                f"topic-{i % topics}",
                f"{i} ".encode() + b"x" * (i % 700),
                tags=TAGS[i % 4],
                keys=KEYS[i % 4] if i % 8 else f"key-{i}",
                properties={"number": str(i)},
                flag=i % 3,
                born_timestamp=1_700_000_000_000 + i,
            )
        producer.flush()
    await_dispatch(path)


def filled(folder: Path, count: int = 3000) -> StoreProcess:
    """A stopped store with `count` messages, several files of the log and of the index."""
    store = StoreProcess(
        folder, mapped_file_size_commit_log=1 << 18, max_message_size=1 << 16, max_index_num=1500
    )
    with store:
        fill(store.path, count)
    return store
