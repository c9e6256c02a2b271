"""Writes files of a service, and removes them. A file that somebody changed is left alone.

The first line of each file that was written here has a checksum of the rest. So a newer version of
SiloMQ can replace what an older one wrote.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from .unit_files import ServiceFile

_MARK: Final = "# Written by `silo systemd install`: "


class State(enum.Enum):
    """What lies at the path of a file."""

    MISSING = enum.auto()
    SAME = enum.auto()
    OLDER = enum.auto()
    """As another version, or other options, wrote it."""
    CHANGED = enum.auto()


def marked(text: str) -> str:
    """The text as it is written."""
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def state_of(file: ServiceFile, path: Path) -> State:
    """What lies at `path`. Raises OSError."""
    if path.is_symlink():
        return State.CHANGED
    try:
        found = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return State.MISSING
    if found == (file.text if file.settings else marked(file.text)):
        return State.SAME
    _, _, rest = found.partition("\n")
    return State.OLDER if found == marked(rest) else State.CHANGED


def write(file: ServiceFile, path: Path) -> None:
    """Writes a file as a whole, and makes its folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = file.text if file.settings else marked(file.text)
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(fd, "w", encoding="utf-8") as out:
            out.write(text)
            os.fchmod(out.fileno(), 0o644)
            out.flush()
            os.fsync(out.fileno())
        os.rename(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
