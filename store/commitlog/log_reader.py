"""Reads the commit log through read-only mappings of its files.

A mapping stays readable after clean has unlinked the file.
"""

from __future__ import annotations

from collections import OrderedDict

from ...shm._memory import Mapping
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.forks import NO_FORK
from ..disk.paths import file_name
from ..errors import Corrupt

_LOG_FILES = 8


def map_log_file(folder: Folder, base: int, file_size: int, *, writable: bool = False) -> Mapping:
    """Maps the whole log file that begins at offset `base`. Raises FileNotFoundError, and Corrupt
    if the file is not `file_size` bytes long: an access behind a file's end would be a SIGBUS.
    """
    name = file_name(base)
    with NO_FORK, folder.file(name, write=writable) as fd:
        size = disk.size_of(fd)
        if size != file_size:
            why = f"the file has {size} of {file_size} bytes"
            raise Corrupt(f"{folder.path}/{name}", base + size, why)
        return disk.map_file(fd, 0, size, writable=writable)


class LogReader:
    """The commit log in `folder`, with files of `file_size` bytes. The last 8 files stay mapped.
    The caller closes the folder, which must be open when a file is mapped.
    """

    def __init__(self, folder: Folder, file_size: int) -> None:
        self._folder = folder
        self.file_size = file_size
        self._files: OrderedDict[int, Mapping] = OrderedDict()

    def path(self, base: int) -> str:
        """The path of the file that begins at offset `base`, for messages of errors."""
        return f"{self._folder.path}/{file_name(max(0, base))}"

    def file(self, base: int) -> Mapping:
        """The mapping of the file that begins at offset `base`. Raises as `map_log_file`."""
        mapping = self._files.get(base)
        if mapping is None:
            mapping = map_log_file(self._folder, base, self.file_size)
            if len(self._files) >= _LOG_FILES:
                self._files.popitem(last=False)
            self._files[base] = mapping
        return mapping

    def forget(self, below: int) -> None:
        """Unmaps the files that begin below an offset. A mapped file keeps its disk space."""
        for base in [base for base in self._files if base < below]:
            del self._files[base]

    def record(self, offset: int, size: int) -> bytes:
        """A copy of the `size` bytes at log offset `offset`. Raises FileNotFoundError if clean has
        removed the file, Corrupt if no record of this size can lie there.
        """
        base = offset - offset % self.file_size
        if offset < 0 or not 0 < size <= base + self.file_size - offset:
            raise self.bad_entry(offset, size)
        at = offset - base
        return bytes(memoryview(self.file(base))[at : at + size])

    def bad_entry(self, offset: int, size: int) -> Corrupt:
        """The exception for a queue entry whose record cannot lie where the entry says."""
        return Corrupt(
            self.path(offset - offset % self.file_size),
            offset,
            f"a queue entry leads to {size} bytes here, which no file of {self.file_size} "
            "bytes holds: the consume queue is damaged, rebuild it",
        )
