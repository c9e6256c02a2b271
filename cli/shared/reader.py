"""Opens a store for commands that only read: a running one, or the files of a stopped one."""

from __future__ import annotations

from pathlib import Path

from ...client.errors import StoreClosed
from ...client.lookup.stopped_store import StoppedStore
from ...client.lookup.store_reader import StoreReader
from ...store.disk.files import is_folder
from ...store.disk.paths import COMMIT_LOG
from .common import say


def open_reader(store: Path) -> StoreReader:
    """A reader of the store in this folder. If the store does not run, a line on stderr says that
    its files are read. Raises StoreClosed for a folder that is no store.
    """
    try:
        return StoreReader(store)
    except StoreClosed:
        if not is_stopped(store):
            raise
    reader = StoreReader(store, stopped=True)
    say_stopped(store, reader.undispatched)
    return reader


def is_stopped(store: Path) -> bool:
    """Whether the folder holds a store. A store that runs is found by connecting to it."""
    return is_folder(f"{store}/{COMMIT_LOG}")


def open_stopped(store: Path) -> StoppedStore:
    """The files of a store that does not run, said on stderr."""
    found = StoppedStore(store)
    say_stopped(store, found.undispatched)
    return found


def say_stopped(store: Path, undispatched: int) -> None:
    """Says that a store does not run, and what is not shown."""
    say(f"silo: no store runs in {store}: these are its files")
    if undispatched:
        say(
            f"silo: messages in the last {undispatched:,} bytes of its log are not shown: the next "
            "start dispatches them"
        )
