"""The state that a sink keeps in the store: which batches it has published, and which it began.

Below the folder of the sinks (`silomq/sinks` of the store, or the option `staging`):

=============================  ==================================================================
`<sink>.json`                  the ledger: `done`, the last batch that was published whole; and
                               `begun`, null or the batch that is being published
`<sink>.lock`                  locked (flock) by the one process that publishes
`staged/<sink>/<batch>.*`      rows that `write` has staged, as Arrow files. For a write without a
                               sinkId the folder exists as long as its tasks may stage more
=============================  ==================================================================

A batch that was begun is finished from exactly the files that its ledger names. So it does not
matter if Spark repeats the batch with its rows divided differently.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path
from typing import Final, Self

import msgspec

from ...conf.digits import number
from ...store.disk.files import Folder, exists
from ...store.disk.paths import OURS
from ...store.disk.replacing import replace_file
from ...store.errors import StoreError

SINKS: Final = "sinks"
STAGED: Final = "staged"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_WAIT_S: Final = 0.05


class SinkBusy(StoreError):
    """Another process publishes for the same sink."""


class Begun(msgspec.Struct, frozen=True):
    """A batch that is being published: its staged files in the order of publishing, where the log
    ended before (`scan_from`), and the number of the store's session that publishes it.
    """

    batch: int
    files: list[str]
    scan_from: int
    session: int


class State(msgspec.Struct, frozen=True):
    """The ledger's content: the last published batch (-1 before the first), and the batch begun, if
    any.
    """

    done: int = -1
    begun: Begun | None = None


def folder_of(store: str, staging: str | None) -> Path:
    """The path of the folder of the sinks. The folder is not made."""
    return Path(staging) if staging else Path(store) / OURS / SINKS


def check_name(name: str) -> str:
    """Returns a sink's name if it may be a part of file names. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"sinkId {name[:200]!a}: 1 to 100 letters, digits, _ and -")
    return name


def make_staging(sinks: Path, name: str) -> None:
    """Makes the folder for a sink's staged rows if it is missing. Raises OSError, which says what
    to do.
    """
    folder = staging_of(sinks, name)
    try:
        Folder.open(folder, create=True).close()
    except OSError as error:
        why = f"the sink cannot make {folder} ({error.strerror}): "
        raise OSError(
            error.errno, f"{why}give a folder that it may write to with the option staging"
        ) from error


def staging_of(sinks: Path, name: str) -> Path:
    """The folder of a sink's staged rows."""
    return sinks / STAGED / name


class Ledger:
    """The ledger of sink `name` below `sinks`, locked: a context manager.

    Waits up to `timeout_s` for another publisher, for instance one that has not noticed yet that
    its Spark died. Raises SinkBusy.
    """

    def __init__(self, sinks: Path, name: str, timeout_s: float) -> None:
        self.sinks = sinks
        self.name = check_name(name)
        self.timeout_s = timeout_s
        self.state = State()

    def __enter__(self) -> Self:
        self._folder = Folder.open(self.sinks, create=True)
        self._lock = self._folder.open_file(f"{self.name}.lock", write=True, create=True)
        try:
            self._acquire()
            self.state = load(self.sinks, self.name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)
        self._folder.close()

    def _acquire(self) -> None:
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SinkBusy(
                        f"sink {self.name} is being published to by another process for "
                        f"{self.timeout_s:g} s ({self.sinks / self.name}.lock): stop it, or give "
                        "this one another sinkId"
                    ) from None
                time.sleep(_WAIT_S)
            else:
                return

    def save(self, state: State) -> None:
        """Replaces the ledger durably."""
        replace_file(self._folder, f"{self.name}.json", msgspec.json.encode(state))
        self.state = state

    def discard(self, batch: int) -> None:
        """Removes staged files of batches up to `batch`, except those of a batch that is begun."""
        discard(self.sinks, self.name, batch)


def is_known(sinks: Path, name: str) -> bool:
    """Whether a sink has ever begun a batch."""
    return exists(sinks / f"{name}.json")


def forget(sinks: Path, name: str) -> None:
    """Removes everything of a sink that will not be used again. Tasks that still run can then stage
    nothing more.
    """
    gone = f"{name}.gone"
    with contextlib.suppress(FileNotFoundError), Folder.open(sinks / STAGED) as staged:
        staged.rename(name, staged, gone)
        staged.remove_tree(gone)
    with contextlib.suppress(FileNotFoundError), Folder.open(sinks) as folder:
        for end in ("json", "lock"):
            with contextlib.suppress(FileNotFoundError):
                folder.unlink(f"{name}.{end}")


def discard(sinks: Path, name: str, last: int) -> None:
    """Removes the staged files of batches up to `last`, except those of a batch that is begun."""
    kept = begun_files(sinks, name)
    gone = [path.name for path in staged_of(sinks, name, last) if path.name not in kept]
    if gone:
        with Folder.open(staging_of(sinks, name)) as folder:
            for file in gone:
                with contextlib.suppress(FileNotFoundError):
                    folder.unlink(file)


def staged_of(sinks: Path, name: str, last: int) -> list[Path]:
    """The staged files of batches up to `last` of a sink."""
    place = staging_of(sinks, name)
    try:
        with Folder.open(place) as folder:
            names = folder.names()
    except FileNotFoundError:
        return []
    found = []
    for file in names:
        batch = number(file.split(".")[0], last)
        if file.endswith(".arrow") and batch is not None:
            found.append(place / file)
    return found


def begun_files(sinks: Path, name: str) -> list[str]:
    """The staged files of the batch that was begun."""
    begun = load(sinks, name).begun
    return begun.files if begun else []


def load(sinks: Path, name: str) -> State:
    """The content of the ledger. Raises StoreError if the file is not a ledger."""
    path = sinks / f"{name}.json"
    try:
        with Folder.open(sinks) as folder:
            return msgspec.json.decode(folder.read(path.name), type=State)
    except FileNotFoundError:
        return State()
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{path} is no ledger of a sink ({error}): what was published is not known; "
            "restore it, or remove it and begin with a new checkpoint"
        ) from error
