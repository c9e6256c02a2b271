"""The archive of Spark's classes: where it is, and the JVM's options to use it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: Spark's configuration folder is on the class path, which must be the same for each session.
FOLDER: Final = Path(sys.prefix) / "var" / "silomq" / "spark"
CONF: Final = FOLDER / "conf"


def find() -> Path | None:
    """The archive, if there is one. Its size is in its name: the JVM would fail on an incomplete
    file.
    """
    for path in FOLDER.glob("classes-*.jsa"):
        if path.name == name_of(path.stat().st_size):
            return path
    return None


def name_of(size: int) -> str:
    """The archive's file name for a size in bytes."""
    return f"classes-{size}.jsa"


def options() -> list[str]:
    """The JVM's options to use the archive; none if there is none."""
    # If the archive does not fit this Java, the JVM starts without it and logs nothing.
    archive = find()
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive else []
