"""Links of the documents, as they are in the repository and as they are in the site."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

#: Documents in the repository's root, and their pages.
ROOT_PAGES: Final = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
}
#: A link or a picture: its target, and the part after "#".
_LINK: Final = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
#: What is no prose: fenced blocks, and code in a line.
_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def site_path(path: str) -> str:
    """The page, or the file, of the site for a file of the repository."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def linked_files(root: Path, documents: Iterable[str]) -> set[str]:
    """The files of the repository that these documents link to, directly or by one another."""
    found: set[str] = set()
    waiting = list(documents)
    while waiting:
        path = waiting.pop()
        if not path.endswith(".md"):
            continue
        for target in targets(root, path):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def targets(root: Path, path: str) -> list[str]:
    """The files of the repository to which a document links. MkDocs reports those that are not
    there.
    """
    found: list[str] = []

    def note(match: re.Match[str]) -> str:
        target = _resolve(root, path, match[2])
        if (root / target).is_file():
            found.append(target)
        return match[0]

    _in_prose((root / path).read_text(encoding="utf-8"), note)
    return found


def rewrite(root: Path, text: str, origin: str, page: str) -> str:
    """The text of a page of the site, whose links are those of the file `origin`."""

    def lead(match: re.Match[str]) -> str:
        target = _resolve(root, origin, match[2])
        if not (root / target).is_file():
            return match[0]
        to = posixpath.relpath(site_path(target), posixpath.dirname(page) or ".")
        return f"{match[1]}{to}{match[3] or ''}"

    return _in_prose(text, lead)


def _resolve(root: Path, path: str, target: str) -> str:
    """The file to which a link leads: in a folder, its README."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return f"{found}/README.md" if (root / found).is_dir() else found


def _in_prose(text: str, change: Callable[[re.Match[str]], str]) -> str:
    """The text with its links changed, but for what stands in code."""
    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(change, text[at : code.start()]), code[0]]
        at = code.end()
    return "".join((*parts, _LINK.sub(change, text[at:])))
