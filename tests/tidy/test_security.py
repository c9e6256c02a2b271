"""docs/security.md names tests that exist, and no process reads code out of data."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tidy.sources import ROOT, nodes, of_each, parsed, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMED = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)*)`")
#: Modules that make objects or code out of bytes, and built-in functions that do.
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing.connection"}
FUNCTIONS = {"eval", "exec", "compile"}
#: Files that may: the results of a Spark job's own tasks are pickled by Spark anyway.
ALLOWED = {"pipeline/jobs/audit_files.py": {"pickle"}}


def names_in(tree: ast.Module) -> set[str]:
    """The test functions of a module, those of classes with the class's name."""
    found: set[str] = set()
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found.update(prefix + one.name for one in inside if isinstance(one, ast.FunctionDef))
    return found


def test_the_named_tests_exist() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    missing = []
    named = _NAMED.findall(text)
    for path, name in named:
        file = ROOT / path
        if not file.is_file():
            missing.append(path)
        elif name and name.removeprefix("::") not in names_in(ast.parse(file.read_text("utf-8"))):
            missing.append(path + name)
    assert not missing
    assert len(named) > 40


def test_every_threat_has_a_promise_and_a_test() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith("| threat |")]
    assert len(rows) > 30
    for row in rows:
        threat, promise, tests = (cell.strip() for cell in row.strip("|").split("|"))
        assert threat
        assert promise
        assert _NAMED.search(tests), row


def used_in(tree: ast.Module) -> Iterator[str]:
    """The modules and functions of the lists that a module uses."""
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [node.func.id] if node.func.id in FUNCTIONS else []
        yield from (name for name in names if name in MODULES | FUNCTIONS)


@of_each(sources(".py"))
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    found = set(used_in(parsed(path)))
    assert found == ALLOWED.get(str(path), set())


def test_what_is_looked_for_is_found() -> None:
    text = "import pickle\nfrom multiprocessing import connection\neval('1')\nimport json"
    assert set(used_in(ast.parse(text))) == {"pickle", "multiprocessing.connection", "eval"}
