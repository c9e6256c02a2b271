"""Where archives are kept: a folder, or any place for which pyarrow or fsspec have a file
system.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

import crc32c
import pyarrow as pa
from pyarrow import fs

from ...tools.raw.files import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEP: Final = 8 << 20


class Place:
    """The folder at `url`: a path, or a URL such as s3://bucket/folder. Raises BadInput for a URL
    without a known file system. Errors of the file system itself are OSError.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        self._fs, path = _file_system(self.url)
        self.path = path.rstrip("/")

    def __str__(self) -> str:
        return self.url

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file; None if there is no such file."""
        try:
            with self._fs.open_input_stream(f"{self.path}/{name}") as stream:
                data: bytes = stream.read()
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes | memoryview) -> int:
        """Writes a whole file, under a temporary name first. Returns the CRC-32C of `data`."""
        target, part = f"{self.path}/{name}", f"{self.path}/part/{name.replace('/', '-')}"
        for path in (target, part):
            self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        crc = 0
        with self._fs.open_output_stream(part) as stream:
            for piece in pieces(memoryview(data)):
                crc = crc32c.crc32c(piece, crc)
                stream.write(piece)
        self._fs.move(part, target)
        return crc

    def checksum(self, name: str, on_piece: Callable[[bytes], object] | None = None) -> int:
        """Reads a whole file and returns its CRC-32C. `on_piece` is called with each piece."""
        crc = 0
        with self._fs.open_input_stream(f"{self.path}/{name}") as stream:
            while piece := stream.read(STEP):
                crc = crc32c.crc32c(piece, crc)
                if on_piece:
                    on_piece(piece)
        return crc

    def clear_parts(self) -> None:
        """Removes temporary files of writers that were killed."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(f"{self.path}/part")


def pieces(data: memoryview) -> Iterator[memoryview]:
    """Yields the bytes in pieces of STEP bytes, so that a writer holds one at a time in memory."""
    for at in range(0, len(data), STEP):
        yield data[at : at + STEP]


def _file_system(url: str) -> tuple[Any, str]:
    if "://" not in url:
        return fs.LocalFileSystem(), os.path.abspath(url)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _by_fsspec(url)
    return found


def _by_fsspec(url: str) -> tuple[Any, str]:
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise BadInput(
            f"{url}: pyarrow has no file system for {scheme}://, and fsspec is not installed: "
            "pip install fsspec and its package for that scheme"
        ) from error
    try:
        found, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise BadInput(f"{url}: no file system for {scheme}:// ({error})") from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path
