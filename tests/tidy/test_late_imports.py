"""A running store imports nothing after its start.

The code on the disk may be replaced while a store runs, and its processes go on with the code that
they have in memory (`supervisor/new_code.py`). An import within a function would bring in a module
of another release.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

from tidy.sources import nodes, parsed, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What the processes of a store consist of.
PACKAGES = ("conf", "shm", "store", "actors", "supervisor")
#: Imports that no process of a store comes to, and the standard library's.
NEVER = {
    "difflib": "the standard library",
    "psutil": "only at a start, before it serves; and it is none of our modules",
    "pyarrow": "columns are a client's",
    "lz4.frame": "bodies are decompressed by clients",
    "zstandard": "bodies are decompressed by clients",
    "silomq.store.disk.recording": "for tests: only if they ask for it, at the start",
}


def late_imports(path: Path) -> Iterator[str]:
    """The modules that functions of a file import."""
    package = ["silomq", *path.parts[:-1]]
    for function in nodes(parsed(path)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in nodes(function):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) + 1 - node.level] if node.level else []
                yield ".".join([*base, *([node.module] if node.module else [])])


def test_a_store_imports_nothing_after_its_start() -> None:
    code = "import sys, silomq.supervisor.__main__; print(*sys.modules)"
    command = [sys.executable, "-P", "-c", code]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    late = [
        (path, module)
        for path in sources(".py")
        if path.parts[0] in PACKAGES
        for module in late_imports(path)
    ]
    assert set(NEVER) <= {module for _, module in late}, "an exception that nobody needs"
    found = [f"{path}: {name}" for path, name in late if name not in loaded and name not in NEVER]
    assert not found, "\n".join(found)
