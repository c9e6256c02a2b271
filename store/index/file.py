"""The index files: a hash table from `topic#key` to commit-log offsets, in a sequence of files.

A file is a header, `max_hash_slot_num` slots (i32: the newest entry of the chain, 0 = empty) and
`max_index_num` entries. Entry 0 is never used. The file does not say how many slots and entries it
has: reader and writer must have the same settings.

Layout header:

======  ====  ====  ================  =======
offset  size  type  field             meaning
======  ====  ====  ================  =======
0       8     i64   begin_timestamp   store time of the first record, epoch ms
8       8     i64   end_timestamp     store time of the last record, epoch ms
16      8     i64   begin_phy_offset  of the first record
24      8     i64   end_phy_offset    of the last record
32      4     i32   hash_slot_count   slots in use
36      4     i32   index_count       the next entry's number
======  ====  ====  ================  =======

Layout entry:

======  ====  ====  ============  =======
offset  size  type  field         meaning
======  ====  ====  ============  =======
0       4     i32   key_hash      |Java hash of topic#key|
4       8     i64   phy_offset    of the record
12      4     i32   time_diff     store time less begin_timestamp, whole seconds
16      4     i32   prev_index    the chain's next older entry, 0 = none
======  ====  ====  ============  =======
"""

from __future__ import annotations

import contextlib
import re
import struct
import time

from ...shm._memory import Mapping
from ..commitlog import _scan as kernel
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.forks import NO_FORK
from ..disk.sparse import clear_behind
from ..errors import Corrupt

_NAME = re.compile("[0-9]{17}")
HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20
_ROOM = (16 << 20) // ENTRY_SIZE
#: Names and types of an entry's fields, as numpy takes them.
ENTRY_FIELDS = (
    ("key_hash", ">i4"),
    ("phy_offset", ">i8"),
    ("time_diff", ">i4"),
    ("prev_index", ">i4"),
)
LAYOUTS = {
    "header": {
        "begin_timestamp": (0, 8),
        "end_timestamp": (8, 8),
        "begin_phy_offset": (16, 8),
        "end_phy_offset": (24, 8),
        "hash_slot_count": (32, 4),
        "index_count": (36, 4),
    },
    "entry": {
        "key_hash": (0, 4),
        "phy_offset": (4, 8),
        "time_diff": (12, 4),
        "prev_index": (16, 4),
    },
}
assert HEADER.size == HEADER_SIZE
assert ENTRY.size == ENTRY_SIZE


def shape_of(folder: Folder, name: int) -> tuple[int, int] | None:
    """The slots and entries of a file, for a reader that does not know how the store was set. The
    newest entry is the last thing in the file; the header has its number and log offset, and the
    slot of its hash its number. None if that does not hold, or the file has no entry.
    """
    with folder.file(str(name)) as fd:
        size = disk.size_of(fd)
        if size < HEADER_SIZE:
            return None
        view = memoryview(disk.map_file(fd, 0, size, writable=False))
    *_, newest, _, count = HEADER.unpack_from(view)
    end = kernel.used_end(view, HEADER_SIZE)
    found = []
    for at in range(max(HEADER_SIZE, end - ENTRY_SIZE), min(end, size - ENTRY_SIZE + 1)):
        slots, odd = divmod(at - HEADER_SIZE - ENTRY_SIZE * (count - 1), SLOT_SIZE)
        entries, rest = divmod(size - HEADER_SIZE - SLOT_SIZE * slots, ENTRY_SIZE)
        if odd or rest or slots < 1 or not 1 < count <= entries:
            continue
        key_hash, offset, _, _ = ENTRY.unpack_from(view, at)
        slot = HEADER_SIZE + SLOT_SIZE * (key_hash % slots)
        if offset == newest and int.from_bytes(view[slot : slot + SLOT_SIZE], "big") == count - 1:
            found.append((slots, entries))
    return found[0] if len(found) == 1 else None


class IndexFiles:
    """The files below `index/`, each of `slots` slots and `entries` entries."""

    def __init__(self, folder: Folder, slots: int, entries: int) -> None:
        self.folder = folder
        self.slots = slots
        self.entries = entries
        self.size = HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries

    def entry_at(self, number: int) -> int:
        """The position of an entry in its file. Entry 0 is never used."""
        return HEADER_SIZE + SLOT_SIZE * self.slots + ENTRY_SIZE * number

    def names(self) -> list[int]:
        """The files' names as numbers (yyyyMMddHHmmssSSS), ascending. Other names are ignored."""
        return sorted(int(n) for n in self.folder.names() if _NAME.fullmatch(n))

    def create(self) -> tuple[int, Mapping]:
        """Makes a file, named by the local time and after all others: (name, mapping). It is sparse
        but for its header and slots: `take_room` takes the space of entries. Raises OSError
        (ENOSPC); then no file stays.
        """
        now = time.time()
        name = int(
            time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now * 1000) % 1000:03d}"
        )
        names = self.names()
        if names:
            name = max(name, names[-1] + 1)
        text = str(name)
        try:
            with self.folder.file(text, write=True, create=True) as fd:
                disk.set_size(fd, self.size)
                self._take_slots(fd)
                mapping = disk.map_file(fd, 0, self.size, writable=True)
        except OSError:
            self.folder.unlink(text)
            raise
        return name, self._shaped(mapping)

    def _take_slots(self, fd: int) -> None:
        """Allocates the space of header and slots, which keys hit at random from the first on."""
        disk.allocate(fd, 0, self.entry_at(0))

    def take_room(self, name: int, count: int) -> int:
        """Allocates the space of the next entries of a file that has `count`, up to 16 MiB. Returns
        how many entries it has space for. To write an entry without space could be a SIGBUS. Raises
        OSError (ENOSPC: the disk is full).
        """
        room = min(count + _ROOM, self.entries)
        with self.folder.file(str(name), write=True) as fd:
            at = self.entry_at(count)
            disk.allocate(fd, at, self.entry_at(room) - at)
        return room

    def _shaped(self, mapping: Mapping) -> Mapping:
        """Sets MADV_RANDOM for the entries of a mapping, which fill up in order. Keys hit slots at
        random from the first one on, so there read-ahead is useful.
        """
        disk.shape_small(mapping, HEADER_SIZE + SLOT_SIZE * self.slots)
        return mapping

    def check_kind(self, name: int) -> None:
        """Raises Corrupt for what has the name of a file and is none, such as a folder."""
        if not self.folder.about(str(name)).is_file:
            raise Corrupt(
                f"{self.folder.path}/{name}",
                0,
                "this is no regular file: move it away, and make the index anew: silo repair "
                "--rebuild",
            )

    def check_size(self, name: int) -> None:
        """Raises Corrupt if a file's size does not fit the settings."""
        size = self.folder.size(str(name))
        if size != self.size:
            raise Corrupt(
                f"{self.folder.path}/{name}",
                size,
                f"the file has {size} bytes, {self.slots} slots and {self.entries} entries take "
                f"{self.size}: set max_hash_slot_num and max_index_num to what the store was made "
                "with, or make the index anew: silo repair --rebuild",
            )

    def open(self, name: int, *, writable: bool = True) -> Mapping:
        """Maps a file. Raises Corrupt if its size does not fit the settings, OSError.

        To be written, its slots need their space: RocketMQ's files are sparse.
        """
        self.check_size(name)
        with NO_FORK, self.folder.file(str(name), write=writable) as fd:
            if writable:
                self._take_slots(fd)
            return self._shaped(disk.map_file(fd, 0, self.size, writable=writable))

    def end_time(self, name: int) -> int:
        """The end_timestamp in a file's header, epoch ms. Raises Corrupt for a file without one."""
        with self.folder.file(str(name)) as fd:
            header = disk.read_at(fd, HEADER_SIZE, 0)
        if len(header) < HEADER_SIZE:
            why = "the file has no whole header; make the index anew: silo repair --rebuild"
            raise Corrupt(f"{self.folder.path}/{name}", len(header), why)
        return int(HEADER.unpack(header)[1])

    def cut(self, name: int, count: int) -> int:
        """Overwrites the entries from number `count` on with zeros, durably. Returns how many bytes
        it wrote. The slots may still lead to these entries.
        """
        with self.folder.file(str(name), write=True) as fd:
            return clear_behind(fd, self.entry_at(count))

    def remove_after(self, name: int) -> list[int]:
        """Removes the files that are newer than `name`, and returns their names."""
        gone = [found for found in self.names() if found > name]
        for found in gone:
            self.folder.unlink(str(found))
        return gone

    def sync(self, name: int) -> None:
        """Makes a file durable, and its entry in the folder, which `create` does not sync. A
        missing file is no error: clean has removed it. Raises OSError.
        """
        with (
            contextlib.suppress(FileNotFoundError),
            self.folder.file(str(name), write=True) as fd,
        ):
            disk.write_back(fd, 0, disk.size_of(fd))
            disk.sync_data(fd)
        self.folder.sync()
