"""Every module has a docstring, and no file names a path or a host of a certain machine."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from tidy.sources import ROOT, files, sources

if TYPE_CHECKING:
    from pathlib import Path

#: Each word is split in two, so that this file does not contain the words that it forbids.
FORBIDDEN = {
    "/wo" + "rk/": "a path of a machine",
    "/opt/wh" + "eels": "a path of a machine",
    "pypi" + ".org": "a package registry's host",
    "python" + "hosted.org": "a package registry's host",
    "npmjs" + ".": "a package registry's host",
    "maven" + ".org": "a package registry's host",
}


@pytest.mark.parametrize("path", sources(".py", ".pyx", tests=True), ids=str)
def test_module_has_a_docstring(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".pyx":
        # The docstring follows the line of compiler directives.
        body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        assert body.lstrip().startswith(('"""', 'r"""'))
    else:
        docstring = ast.get_docstring(ast.parse(text))
        assert docstring


@pytest.mark.parametrize("path", sources(".h"), ids=str)
def test_header_says_what_it_is(path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8").startswith("/*")


@pytest.mark.parametrize("path", files(), ids=str)
def test_file_names_no_machine(path: Path) -> None:
    data = (ROOT / path).read_bytes()
    if b"\0" in data:
        pytest.skip("not a text file")
    text = data.decode()
    assert not {word: why for word, why in FORBIDDEN.items() if word in text}
