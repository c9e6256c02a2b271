"""Imports run one way (ARCHITECTURE.md, section 1)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tidy.sources import PACKAGES, ROOT, sources

if TYPE_CHECKING:
    from pathlib import Path

#: Who may import from which packages, besides from itself. "" is the package's face.
ALLOWED = {
    "": {"client", "store"},
    "conf": set(),
    "shm": {"conf"},
    "store": {"conf", "shm"},
    "actors": {"conf", "shm", "store"},
    "supervisor": {"conf", "shm", "store", "actors"},
    "client": {"conf", "shm", "store"},
    "tools": {"conf", "shm", "store"},
    "pipeline": {"conf", "shm", "store", "client", "tools", ""},
    "cli": {"conf", "store", "client", "supervisor", "tools", "pipeline", ""},
    "bench": {"conf", "shm", "store", "actors", "supervisor", "client", "cli", "pipeline", ""},
}
#: A user's process pays for every import: logging (structlog) and the command line are not for it.
NOT_IN_CLIENTS = ("structlog", "rich", "click", "asyncio")
_CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([.\w]+)\s+c?import|c?import\s+([.\w]+))", re.MULTILINE)


def _package(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def _imported(path: Path) -> set[str]:
    """Modules that a file imports, written absolutely: "silomq.store.ids", "os"."""
    text = (ROOT / path).read_text(encoding="utf-8")
    names: list[tuple[int, str]] = []
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names += [(0, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = f"{node.module}." if node.module else ""
                names += [(node.level, base + alias.name) for alias in node.names]
    else:
        for first, second in _CYTHON_IMPORT.findall(text):
            name = first or second
            bare = name.lstrip(".")
            names.append((len(name) - len(bare), bare))
    here = ["silomq", *path.parent.parts]
    return {
        ".".join([*here[: len(here) - level + 1], name]) if level else name for level, name in names
    }


@pytest.mark.parametrize("path", sources(".py", ".pyx", ".pxd", ".pyi"), ids=str)
def test_imports_run_one_way(path: Path) -> None:
    package = _package(path)
    seen = set()
    for name in _imported(path):
        parts = name.split(".")
        if parts[0] == "silomq":
            seen.add(parts[1] if len(parts) > 1 and parts[1] in PACKAGES else "")
    assert seen <= ALLOWED[package] | {package}


@pytest.mark.parametrize("path", sources(".py"), ids=str)
def test_imports_inside_are_relative(path: Path) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    roots = {
        alias.name.split(".")[0]
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for alias in n.names
    }
    roots |= {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert not roots & {"silomq", "tests", *PACKAGES}


def test_a_client_imports_little() -> None:
    code = f"import sys, silomq; print([m for m in {NOT_IN_CLIENTS!r} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_layers_name_every_package() -> None:
    assert set(ALLOWED) == {"", *PACKAGES}
