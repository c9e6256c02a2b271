"""Sentences stay short enough to be understood at first reading."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tidy.sources import ROOT, files, nodes, of_each, parsed, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = 35
_DOCSTRING = re.compile(r'r?"""(.*?)"""', re.DOTALL)
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"\n(?=\s*(?:[-*] |\d+\. ))")
_END = re.compile(r"(?<=[.!?])\s+|(?<=[;:])\s+(?=[-*] )")


def _texts(path: Path) -> Iterator[str]:
    """The prose in a file: the whole text of a page, the docstrings of a module."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield _CODE.sub("\n\n", text)
    elif path.suffix == ".pyx":
        yield from _DOCSTRING.findall(text)
    else:
        for node in nodes(parsed(path)):
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) and (docstring := ast.get_docstring(node)):
                yield docstring


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text. The end of a list item or of a table cell ends a sentence too."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.split("\n") if not line.startswith("    ")]
        if any(re.match(r"\s*=+  =", line) for line in lines):
            continue
        cells = [
            cell for line in lines if line.lstrip().startswith("|") for cell in line.split("|")
        ]
        rest = "\n".join(line for line in lines if not line.lstrip().startswith("|"))
        for part in (*cells, *_ITEM.split(rest)):
            yield from _END.split(" ".join(part.split()))


def words(sentence: str) -> int:
    """The number of words. Punctuation marks by themselves do not count."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


@of_each([*sources(".py", ".pyx"), *(p for p in files() if p.suffix == ".md")])
def test_sentences_are_short(path: Path) -> None:
    found = [one for text in _texts(path) for one in sentences(text)]
    assert not {one: words(one) for one in found if words(one) > WORDS}


def test_sentences_are_found() -> None:
    text = "One two. Three\nfour?\n\n- five: six\n- seven\n\n| eight | nine |\n\n    code is none\n"
    assert [s for s in sentences(text) if s] == [
        "One two.",
        "Three four?",
        "- five: six",
        "- seven",
        "eight",
        "nine",
    ]
