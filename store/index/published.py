"""The index of a running store, for readers in other processes: index files mapped read-only.

Reput adds entries meanwhile. A reader uses only the entries that the published progress counts. A
new reput undoes the entries behind them: it takes them out of the chains, then clears them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Corrupt
from .file import ENTRY, ENTRY_SIZE, HEADER, HEADER_SIZE, SLOT_SIZE, IndexFiles
from .key_lookup import IndexChains

if TYPE_CHECKING:
    from ...shm.control import Control


class PublishedFile(IndexChains):
    """One mapped index file of `files`. A reader uses only the entries below number `count`."""

    def __init__(
        self, files: IndexFiles, name: int, view: memoryview, head: tuple[int, int, int]
    ) -> None:
        self.path = f"{files.folder.path}/{name}"
        self.slots = files.slots
        self._files = files
        self._view = view
        self.begin_ms, self.end_ms, self.count = head

    def slot(self, number: int) -> int:
        while True:
            head = newest = self._head(number)
            while newest >= self.count and newest > 0:
                older = self.entry(newest)[3]
                newest = older if older < newest else 0
            # A new reput takes an entry out of its chain before it clears the entry. So if the head
            # is unchanged, all entries on the way were whole.
            if newest == head or self._head(number) == head:
                return newest

    def _head(self, number: int) -> int:
        at = HEADER_SIZE + SLOT_SIZE * number
        # One copy of four aligned bytes is atomic: never parts of an old and a new number.
        return int.from_bytes(bytes(self._view[at : at + SLOT_SIZE]), "big", signed=True)

    def entry(self, number: int) -> tuple[int, int, int, int]:
        if number >= self._files.entries:
            raise self._damaged(number, "its number is beyond the file's last entry")
        key_hash, offset, seconds, older = ENTRY.unpack_from(
            self._view, self._files.entry_at(number)
        )
        # RocketMQ can leave an entry whose prev_index is its own number; it ends the chain.
        if not 0 <= older <= number or offset < 0 or key_hash < 0 or seconds < 0:
            raise self._damaged(number, f"it holds {(key_hash, offset, seconds, older)}")
        return key_hash, offset, seconds, older

    def _damaged(self, number: int, what: str) -> Corrupt:
        position = HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * number
        why = f"index entry {number}: {what}; stop the store and run: silo repair --rebuild"
        return Corrupt(self.path, position, why)


class IndexReader:
    """The index files of `files` as the running store of `control` has published them. A removed
    file stays readable until the next `look`.
    """

    def __init__(self, files: IndexFiles, control: Control) -> None:
        self._files = files
        self._control = control
        self._views: dict[int, memoryview] = {}

    def look(self) -> list[PublishedFile]:
        """The files as published now, oldest first. Raises StoreError if a file's size does not fit
        the store's settings.
        """
        progress = self._control.progress()
        last = progress.index.name
        names = [name for name in self._files.names() if name <= last]
        self._views = {name: self._views[name] for name in names if name in self._views}
        found = []
        for name in names:
            if name not in self._views:
                try:
                    self._views[name] = memoryview(self._files.open(name, writable=False))
                except FileNotFoundError:
                    continue  # clean has removed it, after its records
            view = self._views[name]
            header = HEADER.unpack_from(view)
            head = (header[0], header[1], max(1, header[5]))
            if name == last:
                head = (progress.index.begin_time, progress.index.end_time, progress.index.count)
            found.append(PublishedFile(self._files, name, view, head))
        return found
