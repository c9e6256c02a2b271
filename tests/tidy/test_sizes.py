"""Files, functions and lines do not exceed the sizes below."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tidy.sources import ROOT, nodes, of_each, parsed, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_LINES = 400
MODULE_LINES = 600
FUNCTION_LINES = 60
COLUMNS = 100
#: Files that may have more lines, and why.
LONG_FILES = {
    "conf/schema.py": "a table: one entry for each setting, and nothing else",
}
_DEF = re.compile(
    r"^(\s*)(?:def|(?:cdef|cpdef)(?!\s+class))\b[^=]*\(.*|^(\s*)(?:cdef|cpdef) class\b"
)


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _python_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Names of functions and their lengths in lines. Docstrings do not count: they may be long."""
    for node in nodes(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                lines -= (first.end_lineno or first.lineno) - first.lineno + 1
            yield node.name, lines


def _cython_functions(text: str) -> Iterator[tuple[str, int]]:
    """Names and lengths of functions in Cython, where indentation tells their end."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        match = _DEF.match(line)
        if not match or match[1] is None:
            continue
        last = start
        for number in range(start + 1, len(lines)):
            body = lines[number]
            if body.strip() and not body.startswith((match[1] + " ", match[1] + ")")):
                break
            if body.strip():
                last = number
        if last > start:
            yield line.strip(), last - start + 1


@of_each(sources(".py", ".pyx", ".pxd", ".h", ".java", tests=True))
def test_file_is_short(path: Path) -> None:
    count = len(_text(path).splitlines())
    if str(path) in LONG_FILES:
        assert count > FILE_LINES, "take it from LONG_FILES"
    else:
        assert count <= FILE_LINES


@of_each(sources(".pyx"))
def test_compiled_modules_are_short(path: Path) -> None:
    """A module is read with its declarations and with the header of its own name."""
    header = path.with_name(path.stem.removeprefix("_") + ".h")
    parts = [part for part in (path, path.with_suffix(".pxd"), header) if (ROOT / part).is_file()]
    assert sum(len(_text(part).splitlines()) for part in parts) <= MODULE_LINES


@of_each(sources(".py", ".pyx", tests=True))
def test_functions_are_short(path: Path) -> None:
    is_python = path.suffix == ".py"
    found = _python_functions(path) if is_python else _cython_functions(_text(path))
    assert not {name: lines for name, lines in found if lines > FUNCTION_LINES}


@of_each(
    sources(
        ".py", ".pyi", ".pyx", ".pxd", ".h", ".java", ".toml", ".service", ".socket", tests=True
    )
)
def test_lines_are_short(path: Path) -> None:
    lines = _text(path).splitlines()
    assert not {number: len(line) for number, line in enumerate(lines, 1) if len(line) > COLUMNS}


def test_cython_functions_are_measured() -> None:
    text = (
        "cdef class A:\n    cdef int f(self,\n          int x):\n        a\n\n        b\n"
        "\ndef g():\n    x\n"
    )
    assert list(_cython_functions(text)) == [("cdef int f(self,", 5), ("def g():", 2)]
