"""The golden stores: directories that RocketMQ wrote, and what it read from them."""

from __future__ import annotations

import functools
import io
import json
import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("normal", "crashed", "preblank")
#: What the stores were written with (golden/README.md).
LOG_FILE_SIZE = 65_536
QUEUE_FILE_SIZE = 2_000
INDEX_SLOTS = 500
INDEX_ENTRIES = 2_000
#: Where the archives lie.
FOLDER = Path(__file__).with_name("golden")


@dataclass(frozen=True)
class Golden:
    """One unpacked store and the lines of its manifest."""

    name: str
    path: Path
    lines: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]

    def log_files(self) -> list[tuple[int, bytes]]:
        """Start offset and bytes of each commit-log file, in order."""
        files = sorted((self.path / "commitlog").iterdir())
        return [(int(f.name), f.read_bytes()) for f in files]


def unpack(name: str, into: Path) -> Golden:
    """One of NAMES, unpacked below `into`."""
    with tarfile.open(fileobj=io.BytesIO(_archive(name))) as tar:
        tar.extractall(into, filter="data")
    return Golden(name, into / name, _lines(name))


# Many tests unpack the same store, and decompressing takes as long as what most of them do.
@functools.cache
def _archive(name: str) -> bytes:
    return lzma.decompress((FOLDER / f"{name}.tar.xz").read_bytes())


@functools.cache
def _lines(name: str) -> list[dict[str, Any]]:
    text = lzma.decompress((FOLDER / f"{name}.manifest.jsonl.xz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]
