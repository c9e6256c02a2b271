"""The definitions in each file of the package, and the names that it uses. Python is read by its
syntax tree, Cython and C by regular expressions.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidy.imports import imported
from tidy.sources import ROOT, nodes, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Definition:
    """A name that `file` defines on the lines `first` to `last`. `owner` is its class, or "".

    The owner of a C name that a Cython file only declares is EXTERN.
    """

    file: str
    owner: str
    name: str
    first: int
    last: int
    is_function: bool = False
    decorators: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in the form of the list EXCEPTIONS of test_dead_code.py."""
        return (
            f"{self.file}: {self.owner}.{self.name}" if self.owner else f"{self.file}: {self.name}"
        )


EXTERN = "extern"
Lines = dict[str, list[int]]


@dataclass
class Source:
    """One file. `names` has the lines on which a name is read by itself, `attributes` those on
    which it is read after a dot. `bases` has the base classes of each class, without their modules.
    """

    path: Path
    definitions: list[Definition] = field(default_factory=list)
    names: Lines = field(default_factory=dict)
    attributes: Lines = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)


def read(path: Path, text: str | None = None) -> Source:
    """Reads a file of the package, or `text` in its place."""
    if path.suffix == ".py":
        source = _read_python(path, parsed(path) if text is None else ast.parse(text))
    else:
        given = (ROOT / path).read_text(encoding="utf-8") if text is None else text
        source = _read_words(path, given)
    if text is None and path.suffix != ".h":
        source.imports = imported(path)
    return source


# -- Python


def _read_python(path: Path, tree: ast.Module) -> Source:
    found = Source(path)
    for statement in tree.body:
        found.definitions += _defined(str(path), "", statement)
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef):
            found.bases[node.name] = [ast.unparse(b).rpartition(".")[2] for b in node.bases]
            found.definitions += _members(str(path), node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.names.setdefault(node.id, []).append(node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.attributes.setdefault(node.attr, []).append(node.lineno)
        elif isinstance(node, ast.Call) and _called(node).endswith("getattr"):
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    found.attributes.setdefault(str(argument.value), []).append(node.lineno)
    return found


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _defined(file: str, owner: str, node: ast.stmt) -> Iterator[Definition]:
    """The definitions in a statement of a module or of a class."""
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        decorators = tuple(ast.unparse(one) for one in node.decorator_list)
        is_function = not isinstance(node, ast.ClassDef)
        yield Definition(file, owner, node.name, node.lineno, last, is_function, decorators)
    elif isinstance(node, ast.If | ast.Try):
        for inner in node.body:
            yield from _defined(file, owner, inner)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield Definition(file, owner, name.id, node.lineno, last)


def _members(file: str, owner: ast.ClassDef) -> Iterator[Definition]:
    """Methods and attributes of a class, with attributes that its methods assign to `self`."""
    seen = set()
    for statement in owner.body:
        for found in _defined(file, owner.name, statement):
            seen.add(found.name)
            yield found
    for node in ast.walk(owner):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            and node.attr not in seen
        ):
            seen.add(node.attr)
            yield Definition(file, owner.name, node.attr, node.lineno, node.lineno)


# -- Cython and C

_NO_CODE = re.compile(
    r'r?"""(?:.|\n)*?"""|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'|#(?= ).*"
)
_CYTHON = re.compile(
    r"^(?P<indent> *)(?:"
    r"(?:cdef|cpdef) class (?P<class>\w+)(?:\((?P<bases>[\w., ]+)\))?"
    r"|(?:def|cdef|cpdef)\b[^=\n(]*?\b(?P<function>\w+)\("
    r"|cdef (?:readonly|public) [\w ]+?\**(?P<attribute>\w+)$"
    r"|(?:cdef [\w ]+?\**)?(?P<constant>[A-Za-z_]\w*) = "
    r")"
)
_DECLARED = re.compile(
    r"^    (?:const )?[\w ]+?\**(?P<function>\w+)(?: \"\")?\(|^    int (?P<constants>[A-Z_0-9, ]+)$"
)
_C_FUNCTION = re.compile(r"^static inline [\w ]+?\**(\w+)\(")
_C_CONSTANT = re.compile(r"^(?:    |enum \{ )(\w+) = |^#define (\w+)\b")


def _read_words(path: Path, text: str) -> Source:
    found = Source(path)
    code = _NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines = code.splitlines()
    if path.suffix == ".h":
        found.definitions += _c_definitions(str(path), lines)
    else:
        found.definitions += _cython_definitions(found, lines)
    # A second definition of a name (#ifdef), or its declaration, does not count as a use.
    at = {(one.name, one.first) for one in found.definitions}
    for number, line in enumerate(lines, 1):
        for word in re.findall(r"\w+", line):
            if (word, number) not in at:
                found.names.setdefault(word, []).append(number)
    found.attributes = found.names
    return found


def _c_definitions(file: str, lines: list[str]) -> Iterator[Definition]:
    for number, line in enumerate(lines, 1):
        if match := _C_FUNCTION.match(line):
            end = number
            while end < len(lines) and not lines[end - 1].rstrip().endswith("}"):
                end += 1
            yield Definition(file, "", match[1], number, end, is_function=True)
        elif match := _C_CONSTANT.match(line):
            yield Definition(file, "", match[1] or match[2], number, number)


def _cython_definitions(source: Source, lines: list[str]) -> Iterator[Definition]:
    file, owner, declares = str(source.path), "", False
    for number, line in enumerate(lines, 1):
        if line and not line[0].isspace():
            declares, owner = line.startswith("cdef extern"), ""
        if declares:
            for name in _declared(line):
                yield Definition(file, EXTERN, name, number, number)
            continue
        match = _CYTHON.match(line)
        if not match or len(match["indent"]) > (4 if owner else 0):
            continue
        if match["constant"] and match["indent"]:
            continue
        name = match["class"] or match["function"] or match["attribute"] or match["constant"]
        last = _block_end(lines, number, len(match["indent"]))
        yield Definition(file, owner, name, number, last, is_function=bool(match["function"]))
        if match["class"]:
            owner = name
            source.bases[name] = (match["bases"] or "").replace(" ", "").split(",")


def _declared(line: str) -> list[str]:
    """The C functions and constants that a line of a `cdef extern` block declares."""
    match = _DECLARED.match(line)
    if not match:
        return []
    return [match["function"]] if match["function"] else match["constants"].split(", ")


def _block_end(lines: list[str], first: int, indent: int) -> int:
    """The last line of the block that begins on line `first`. Its head may have several lines."""
    last = first
    for number in range(first + 1, len(lines) + 1):
        line = lines[number - 1]
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= indent and not line.lstrip().startswith(")"):
            break
        last = number
    return last
