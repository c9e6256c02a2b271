"""A read-only view of the commit log, by mapping the files that hold its records.

A mapping outlives the file's name: what a reader holds stays readable when clean unlinks it.
"""

from __future__ import annotations

from collections import OrderedDict

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import file_name
from ..errors import Corrupt

_LOG_FILES = 8


def map_log_file(folder: Folder, base: int, file_size: int, *, writable: bool = False) -> Mapping:
    """Maps the whole log file that begins at offset `base`. Raises FileNotFoundError when it is
    gone, Corrupt when it is not `file_size` bytes long: what lies behind a file's end is no memory.
    """
    name = file_name(base)
    with folder.file(name, write=writable) as fd:
        size = disk.size_of(fd)
        if size != file_size:
            why = f"the file has {size} of {file_size} bytes"
            raise Corrupt(f"{folder.path}/{name}", base + size, why)
        return disk.map_file(fd, 0, size, writable=writable)


class LogReader:
    """The commit log below `folder`, files of `file_size` bytes, the last few kept mapped. The
    folder is the caller's, and must be open when a file is mapped.
    """

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self.file_size = file_size
        self._files: OrderedDict[int, Mapping] = OrderedDict()

    def path(self, base: int) -> str:
        """The file that begins at offset `base`, for errors."""
        return f"{self._folder.path}/{file_name(max(0, base))}"

    def file(self, base: int) -> Mapping:
        """The file that begins at offset `base`. Raises as `map_log_file`."""
        mapping = self._files.get(base)
        if mapping is None:
            mapping = map_log_file(self._folder, base, self.file_size)
            if len(self._files) >= _LOG_FILES:
                self._files.popitem(last=False)
            self._files[base] = mapping
        return mapping

    def forget(self, below: int) -> None:
        """Lets go of the files that begin below an offset: mapped files keep their disk space."""
        for base in [base for base in self._files if base < below]:
            del self._files[base]

    def record(self, offset: int, size: int) -> bytes:
        """The `size` bytes at commit-log offset `offset`, copied. Raises FileNotFoundError when the
        file is gone, Corrupt when no record can be there.
        """
        base = offset - offset % self.file_size
        if offset < 0 or not 0 < size <= base + self.file_size - offset:
            raise self.bad_entry(offset, size)
        at = offset - base
        return bytes(memoryview(self.file(base))[at : at + size])

    def bad_entry(self, offset: int, size: int) -> Corrupt:
        """What to raise for a queue entry that leads to where no record can be."""
        return Corrupt(
            self.path(offset - offset % self.file_size),
            offset,
            f"a queue entry leads to {size} bytes here, which no file of {self.file_size} "
            "bytes holds: the consume queue is damaged, rebuild it",
        )
