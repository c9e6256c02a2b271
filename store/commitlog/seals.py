"""Seals: a JSON file for each full commit-log file, in `silomq/seals`, which RocketMQ ignores.

A seal holds the CRC-32C of the whole file, to detect decay. Its offsets and store timestamps tell a
reader what a file holds without opening it. The fields are `size` (bytes), `crc32c` (8 hex digits),
`records`, `first_offset`, `last_offset` (of the last record), `first_store_time` and
`last_store_time` (epoch ms).
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec.structs import asdict

from ...conf.digits import number
from ...shm._checksum import crc32c
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import StoreFolders, file_name
from ..disk.replacing import replace_file
from ..errors import Corrupt
from . import _scan as kernel
from .log import CommitLog

if TYPE_CHECKING:
    from collections.abc import Callable

SEALS = "seals"
_STEP = 1 << 20
_SUFFIX = ".json"
_LAST_OFFSET = 2**63 - 1


class Seal(msgspec.Struct, frozen=True):
    """The contents of a full file. Offsets are of the commit log, times epoch ms."""

    size: int
    crc32c: str
    records: int
    first_offset: int
    last_offset: int
    first_store_time: int
    last_store_time: int


def seal_of(log: CommitLog, base: int, rest: Callable[[float], None] | None = None) -> Seal:
    """Computes the seal of a full file, which reads all of it. `rest` is called after each MiB,
    with the seconds that it took. Raises FileNotFoundError, StoreError.
    """
    view = memoryview(log.open(base).mapping)
    crc, records, last, first_time, last_time, position = 0, 0, -1, 0, 0, 0
    for at in range(0, len(view), _STEP):
        began = time.monotonic()
        crc = crc32c(view[at : at + _STEP], crc)
        count, latest, first, newest, position = kernel.bounds(view, base, position, at + _STEP)
        if count:
            first_time = first_time if records else first
            records, last, last_time = records + count, latest, newest
        if rest is not None:
            rest(time.monotonic() - began)
    return Seal(len(view), f"{crc:08x}", records, base, last, first_time, last_time)


def sealed_bases(ours: Folder) -> list[int]:
    """The offsets of the files that have a seal, ascending. `ours` is the folder `silomq`; it may
    have no seals yet.
    """
    try:
        with ours.folder(SEALS) as folder:
            return _bases(folder)
    except FileNotFoundError:
        return []


def _bases(folder: Folder) -> list[int]:
    names = (name.removesuffix(_SUFFIX) for name in folder.names())
    found = (number(name, _LAST_OFFSET) for name in names if len(name) == 20)
    return sorted(base for base in found if base is not None)


class Seals:
    """The seals of one store. It is a context manager that closes their folder; only one process
    may write.
    """

    def __init__(self, folders: StoreFolders) -> None:
        is_new = SEALS not in folders.ours.names()
        self.folder: Folder = folders.ours.folder(SEALS, create=True)
        if is_new:
            folders.ours.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.close()

    def bases(self) -> list[int]:
        """The offsets of the files that have a seal, ascending."""
        return _bases(self.folder)

    def read(self, base: int) -> Seal | None:
        """The seal of a file, or None. Raises Corrupt if the seal is not valid."""
        name = file_name(base) + _SUFFIX
        try:
            with self.folder.file(name) as fd:
                text = disk.read_at(fd, 4096, 0)
        except FileNotFoundError:
            return None
        try:
            return Seal(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise Corrupt(f"{self.folder.path}/{name}", 0, f"not a seal: {error}") from error

    def write(self, base: int, seal: Seal) -> None:
        """Replaces a file's seal, durably. Raises OSError."""
        text = json.dumps(asdict(seal)) + "\n"
        replace_file(self.folder, file_name(base) + _SUFFIX, text.encode())

    def remove(self, base: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.folder.unlink(file_name(base) + _SUFFIX)

    def remove_outside(self, first: int, end: int) -> None:
        """Removes the seals of all files but those whose offsets lie in [first, end)."""
        for base in self.bases():
            if not first <= base < end:
                self.remove(base)
