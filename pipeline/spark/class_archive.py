"""The archive of Spark's classes: where it lies, and the JVM's options to use it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: Spark's configuration folder is on the class path, which must be the same for each session.
FOLDER: Final = Path(sys.prefix) / "var" / "silomq" / "spark"
CONF: Final = FOLDER / "conf"


def find() -> Path | None:
    """The archive, if there is one. Its name says its size: the JVM would fail on half of one."""
    for path in FOLDER.glob("classes-*.jsa"):
        if path.name == name_of(path.stat().st_size):
            return path
    return None


def name_of(size: int) -> str:
    """The archive's file name, which says how many bytes it has."""
    return f"classes-{size}.jsa"


def options() -> list[str]:
    """The JVM's options to use the archive; none if there is none."""
    # If it does not fit, Spark starts without it, and has nothing to say about it.
    archive = find()
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive else []
