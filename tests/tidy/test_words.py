"""Every module has a docstring, and no file names a path or a host of a certain machine."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tidy.sources import ROOT, files, of_each, parsed, sources

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


@of_each(sources(".py", ".pyx", tests=True))
def test_module_has_a_docstring(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".pyx":
        # The docstring follows the line of compiler directives.
        body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        assert body.lstrip().startswith(('"""', 'r"""'))
    else:
        docstring = ast.get_docstring(parsed(path))
        assert docstring


@of_each(sources(".h"))
def test_header_says_what_it_is(path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8").startswith("/*")


@of_each(files())
def test_file_names_no_machine(path: Path) -> None:
    data = (ROOT / path).read_bytes()
    if b"\0" in data:
        return  # not a text file
    text = data.decode()
    assert not {word: why for word, why in FORBIDDEN.items() if word in text}
