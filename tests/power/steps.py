"""A recording step by step: what was durable at each of them.

An image of the disk shows a wrong order only if a cut falls between two steps that take less than a
millisecond. So tests ask each step for what must be durable at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from power.simulator import Disk, File, events

from silomq.store.consumequeue.queue import ENTRY, ENTRY_SIZE
from silomq.store.delay import delays, timers
from silomq.store.disk.recording import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from power.recorded_store import Recorded

    from silomq.store.disk.recording import Event


class Steps:
    """A recording as far as it was played, with what is asked of each step."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.disk = Disk(recorded.store.path)
        self.log_file = int(str(recorded.store.settings["mapped_file_size_commit_log"]))

    def play(self) -> Iterator[tuple[Event, str]]:
        """Each event, before it is applied, with its path below the store's folder."""
        for at, event in events(self.recorded.recording):
            yield event, event.path.removeprefix(self.disk.root).lstrip("/")
            self.disk.apply(at, event)

    def file(self, path: str) -> File | None:
        number = self.disk.entries.get(path)
        return self.disk.files[number] if number else None

    def files(self, folder: str) -> Iterator[tuple[str, File]]:
        for path, number in self.disk.entries.items():
            if number and path.startswith(f"{folder}/"):
                yield path, self.disk.files[number]

    def durable_bytes(self, file: File) -> bytes:
        return self._bytes(file, 0)

    def newest_bytes(self, file: File) -> bytes:
        return self._bytes(file, -1)

    def _bytes(self, file: File, version: int) -> bytes:
        size = file.sizes[version]
        pages = [b""] * -(-size // PAGE)
        for page, versions in file.pages.items():
            if page < len(pages):
                pages[page] = self.disk.contents[versions[version]]
        return b"".join(page or bytes(PAGE) for page in pages)[:size]


def is_whole(file: File) -> bool:
    """Whether nothing of the file can be lost."""
    return len(file.sizes) == 1 and all(len(versions) == 1 for versions in file.pages.values())


def durable_slot(page: bytes) -> tuple[int, int] | None:
    """(`scan_from`, `timer_next`) of the newest of the two durable slots."""
    found = []
    for slot in (2, 3):
        words = memoryview(page)[slot * delays.SLOT_SIZE :][:32].cast("Q").tolist()
        if words[0] == delays.MAGIC:
            found.append((words[1], words[2], words[3]))
    return max(found)[1:] if found else None


def rows(data: bytes) -> Iterator[tuple[int, ...]]:
    whole = len(data) // timers.ENTRY_SIZE * timers.ENTRY_SIZE
    return timers.ENTRY.iter_unpack(data[:whole])


def check_entries(steps: Steps, name: str, file: File, dispatched: int) -> None:
    """Entries of records below `dispatched` are durable, with the file's name."""
    if is_whole(file) and name in steps.disk.durable:
        return
    durable, newest = steps.durable_bytes(file), steps.newest_bytes(file)
    for at in range(0, len(newest) // ENTRY_SIZE * ENTRY_SIZE, ENTRY_SIZE):
        offset, size, _ = ENTRY.unpack_from(newest, at)
        if size == 0 or offset >= dispatched:
            return
        assert durable[at : at + ENTRY_SIZE] == newest[at : at + ENTRY_SIZE], f"{name}: {offset}"
        assert name in steps.disk.durable, f"{name} can lose its name"
