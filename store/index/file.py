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
import struct
import time

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.sparse import clear_behind
from ..errors import StoreError

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20
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
        return sorted(int(n) for n in self.folder.names() if len(n) == 17 and n.isdigit())

    def create(self) -> tuple[int, Mapping]:
        """Makes a file, named by the local time and after all others: (name, mapping). Raises
        OSError (ENOSPC); then no file stays.
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
                disk.allocate(fd, 0, self.size)
                mapping = disk.map_file(fd, 0, self.size, writable=True)
        except OSError:
            self.folder.unlink(text)
            raise
        return name, self._shaped(mapping)

    def _shaped(self, mapping: Mapping) -> Mapping:
        """Sets MADV_RANDOM for the entries of a mapping, which fill up in order. Keys hit slots at
        random from the first one on, so there read-ahead is useful.
        """
        disk.shape_small(mapping, HEADER_SIZE + SLOT_SIZE * self.slots)
        return mapping

    def check_size(self, name: int) -> None:
        """Raises StoreError if a file's size does not fit the settings."""
        size = self.folder.size(str(name))
        if size != self.size:
            raise StoreError(
                f"{self.folder.path}/{name} has {size} bytes, {self.slots} slots and "
                f"{self.entries} entries take {self.size}: set max_hash_slot_num and "
                "max_index_num to what the store was made with"
            )

    def open(self, name: int, *, writable: bool = True) -> Mapping:
        """Maps a file. Raises StoreError if its size does not fit the settings, OSError."""
        self.check_size(name)
        with self.folder.file(str(name), write=writable) as fd:
            return self._shaped(disk.map_file(fd, 0, self.size, writable=writable))

    def end_time(self, name: int) -> int:
        """The end_timestamp in a file's header, epoch ms."""
        with self.folder.file(str(name)) as fd:
            header = HEADER.unpack(disk.read_at(fd, HEADER_SIZE, 0))
        return int(header[1])

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
