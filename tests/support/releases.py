"""Releases of SiloMQ beside each other, one of which is installed: what `pip install --upgrade`
does to a running store.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import silomq

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTALLED = Path(silomq.__file__).resolve().parent
#: Text that is in a file of a release -> what stands there in another one.
Edits = tuple[str, str]


class Releases:
    """A folder with releases, and a place that programs with `environ` import SiloMQ from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._site = folder / "site"
        self._site.mkdir(parents=True)

    @property
    def environ(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self._site)}

    def make(self, name: str, edits: Mapping[str, Edits] | None = None) -> Path:
        """A release: the installed one, with these edits by file."""
        root = self._folder / name / "silomq"
        shutil.copytree(INSTALLED, root, copy_function=_link)
        for file, (old, new) in {"__init__.py": _version(name), **(edits or {})}.items():
            path = root / file
            text = path.read_text()
            assert text.count(old) == 1, f"{file}: {old!r} stands there {text.count(old)} times"
            path.unlink()
            path.write_text(text.replace(old, new))
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                compiled.unlink()
        return root

    def install(self, name: str, edits: Mapping[str, Edits] | None = None) -> None:
        """Has new processes import this release, which is made if it is not there."""
        root = self._folder / name / "silomq"
        if not root.exists():
            self.make(name, edits)
        link = self._site / "next"
        link.symlink_to(root)
        link.rename(self._site / "silomq")

    def of(self, pid: int) -> set[str]:
        """The releases whose compiled modules a process has loaded."""
        found = set()
        with open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                path = line.split(maxsplit=5)[-1].strip()
                if path.startswith(f"{self._folder}/") and path.endswith(".so"):
                    found.add(path.removeprefix(f"{self._folder}/").split("/", 1)[0])
        return found


def _version(name: str) -> Edits:
    line = f'__version__ = "{silomq.__version__}"'
    return line, f'__version__ = "{silomq.__version__}+{name}"'


def _link(source: str, target: str) -> None:
    """Edited files are replaced, not changed, so the rest may be the same files."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
