"""Where archives lie: a folder, or whatever pyarrow or fsspec have a file system for."""

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
    that nobody has a file system for; errors of the file system itself are OSError.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        self._fs, path = _file_system(self.url)
        self.path = path.rstrip("/")

    def __str__(self) -> str:
        return self.url

    def read(self, name: str) -> bytes | None:
        """All of a small file; None without it."""
        try:
            with self._fs.open_input_stream(f"{self.path}/{name}") as stream:
                data: bytes = stream.read()
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes | memoryview) -> int:
        """Writes a file as a whole, under another name first: the CRC-32C of what was given."""
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
        """Reads a file to its end: its CRC-32C. `on_piece` is given each piece."""
        crc = 0
        with self._fs.open_input_stream(f"{self.path}/{name}") as stream:
            while piece := stream.read(STEP):
                crc = crc32c.crc32c(piece, crc)
                if on_piece:
                    on_piece(piece)
        return crc

    def clear_parts(self) -> None:
        """Removes what writers that were killed have left."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(f"{self.path}/part")


def pieces(data: memoryview) -> Iterator[memoryview]:
    """The bytes in parts that are held in memory one at a time."""
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
