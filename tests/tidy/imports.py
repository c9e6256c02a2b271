"""The imports between files: the modules and C headers that each file of the package names."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from tidy.sources import ROOT, module_name, nodes, parsed, sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

CODE = (".py", ".pyx", ".pxd", ".pyi", ".h")
_CYTHON_IMPORT = re.compile(
    r"^\s*(?:from\s+([.\w]+)\s+c?import\s+\(?([\w, ]+)|c?import\s+([.\w]+))", re.MULTILINE
)
_HEADER = re.compile(r"""(?:cdef extern from|\#include) "(\w+/[\w/]+\.h)\"""")


@functools.cache
def imported(path: Path) -> set[str]:
    """The full names that a file imports: "silomq.store.record.ids.Host", "os"."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix in {".py", ".pyi"}:
        names = _python_imports(parsed(path))
    else:
        names = _cython_imports(text)
    here = ["silomq", *path.parent.parts]
    return {
        ".".join([*here[: len(here) - level + 1], name]) if level else name for level, name in names
    }


def _python_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            yield from ((node.level, base + alias.name) for alias in node.names)


def _cython_imports(text: str) -> Iterator[tuple[int, str]]:
    for module, names, whole in _CYTHON_IMPORT.findall(text):
        bare = (module or whole).lstrip(".")
        level = len(module or whole) - len(bare)
        for name in names.split(",") if names else [""]:
            yield level, ".".join(part for part in (bare, name.strip()) if part)


def headers(path: Path) -> set[str]:
    """The project's C headers that a file includes, as "store/record/record.h"."""
    return set(_HEADER.findall((ROOT / path).read_text(encoding="utf-8")))


@functools.cache
def graph() -> Mapping[str, frozenset[str]]:
    """File -> the files of the package that it imports or includes. A compiled module and its
    declarations are one file, the `.pyx`.
    """
    modules = {module_name(path): str(path) for path in sources(".pyx", ".py")}
    found: dict[str, set[str]] = defaultdict(set)
    for path in sources(*CODE):
        of = str(path.with_suffix(".pyx")) if path.suffix in {".pxd", ".pyi"} else str(path)
        if path.suffix != ".h":
            found[of] |= {m for name in imported(path) if (m := _module(name, modules))}
        if path.suffix not in {".py", ".pyi"}:
            found[of] |= headers(path)
    return {file: frozenset(others - {file}) for file, others in found.items()}


def _module(name: str, modules: Mapping[str, str]) -> str | None:
    """The file of the module `name`, or of the module that defines `name`."""
    return modules.get(name) or modules.get(name.rpartition(".")[0])


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """All sets of two or more nodes that reach each other, each sorted."""
    reached = {node: _reachable(node, edges) for node in edges}
    found = {
        frozenset(other for other in reached[node] if node in reached.get(other, ()))
        for node in edges
        if node in reached[node]
    }
    return sorted(sorted(circle) for circle in found)


def _reachable(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for node in edges.get(ahead.pop(), ()):
            if node not in found:
                found.add(node)
                ahead.append(node)
    return found
