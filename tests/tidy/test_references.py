"""Files that documents and docstrings name are there, and links lead to files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tidy.sources import ROOT, files, of_each, parsed, sources

#: Files and links in a text: `store/disk/files.py`, [dispatch](store/dispatch/__init__.py).
_FILE = re.compile(r"`([\w./-]+\.(?:py|pyx|pxd|h|md|service))`")
_LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]*)?\)")
#: Names that stand for others.
_PATTERNS = {"_name.pyx"}
_PAGES = [path for path in files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]


def _is_there(name: str, page: Path) -> bool:
    """Whether a file is found from the root, from the page's folder, or in a room below it."""
    tried = (ROOT / name, ROOT / page.parent / name)
    return any(path.exists() for path in tried) or any(
        path.name == name and page.parent in (path.parent, *path.parents) for path in files()
    )


@pytest.mark.parametrize("page", _PAGES, ids=str)
def test_pages_name_files_that_are_there(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {*_FILE.findall(text), *_LINK.findall(text)} - _PATTERNS
    assert not {name for name in named if not _is_there(name, page)}


@of_each(sources(".py", ".pyx", ".pyi", ".h"))
def test_sources_name_files_that_are_there(path: Path) -> None:
    named = set(_FILE.findall((ROOT / path).read_text(encoding="utf-8"))) - _PATTERNS
    assert not {name for name in named if "/" in name and not _is_there(name, path)}


@of_each([p for p in sources(".py") if p.name == "__init__.py"])
def test_rooms_name_files_that_are_theirs(path: Path) -> None:
    docstring = ast.get_docstring(parsed(path)) or ""
    named = set(_FILE.findall(docstring)) - _PATTERNS
    assert not {name for name in named if not _is_there(name, path)}
