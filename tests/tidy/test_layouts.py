"""Layout tables in docstrings have the same offsets and sizes as the code."""

from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING

import pytest
from tidy.layout_tables import BadTable, in_code, problems, tables
from tidy.sources import ROOT, module_name, parsed, sources

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
Layout one:

======  ====  ====  ======  =======
offset  size  type  field   meaning
======  ====  ====  ======  =======
0       8     u64   magic   what it is
64      16    u64   longer  runs on, over the border of the table
======  ====  ====  ======  =======
"""


def _docstring(path: Path) -> str:
    tree = parsed(path)
    return ast.get_docstring(tree, clean=True) or ""


def _owns_a_layout(path: Path) -> bool:
    text = (ROOT / path).read_text(encoding="utf-8")
    if "\nLAYOUT" in text:
        return True
    return "offset  size" in text and "offset  size" in _docstring(path)


OWNERS = [path for path in sources(".py") if _owns_a_layout(path)]


def test_there_are_layouts() -> None:
    assert OWNERS


@pytest.mark.parametrize("path", OWNERS, ids=str)
def test_table_says_what_the_code_does(path: Path) -> None:
    written = tables(_docstring(path))
    coded = in_code(importlib.import_module(module_name(path)))
    assert {
        name: {row.field: (row.offset, row.size) for row in rows} for name, rows in written.items()
    } == coded


@pytest.mark.parametrize("path", OWNERS, ids=str)
def test_table_is_consistent(path: Path) -> None:
    for name, rows in tables(_docstring(path)).items():
        assert not problems(rows), f"table {name!r} of {path}"


def test_a_good_table_is_read() -> None:
    (rows,) = tables(GOOD).values()
    assert [(r.offset, r.size, r.type, r.field) for r in rows] == [
        (0, 8, "u64", "magic"),
        (64, 16, "u64", "longer"),
    ]
    assert rows[1].meaning == "runs on, over the border of the table"
    assert not problems(rows)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("64      16 ", "4       16 ", "begins before 8"),
        ("64      16 ", "64      12 ", "its type u64 8"),
        ("longer", "magic ", "twice"),
    ],
)
def test_an_inconsistent_table_is_found(old: str, new: str, complaint: str) -> None:
    (rows,) = tables(GOOD.replace(old, new)).values()
    assert complaint in " ".join(problems(rows))


@pytest.mark.parametrize(
    ("old", "new"),
    [("offset  size", "offset  len "), ("0       8 ", "0       x "), (GOOD[-38:], "")],
)
def test_a_malformed_table_is_an_error(old: str, new: str) -> None:
    with pytest.raises(BadTable):
        tables(GOOD.replace(old, new))


def test_two_tables_need_names() -> None:
    with pytest.raises(BadTable, match="two tables"):
        tables(GOOD + GOOD)
