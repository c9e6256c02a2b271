"""The blocks of code in the documents, and those of them that no test runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
_FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: How the first line of each block begins that is not run, and the reason. What can be checked of
#: it without running it is: its `silo` commands have the options that it gives them, its tasks of
#: the Makefile are there, and its Python and shell have no errors of syntax.
NOT_RUN: Final = {
    "make install ": "it compiles the package for a minute; CI does so before it runs any test",
    "make demo ": "tests/e2e/cli/test_demo.py and tests/spark/test_demo.py run the demo",
    "python3 -m venv silo-env": "it compiles the package; tests/tidy/test_wheel.py builds it",
    "pip install '.[spark]'": "it downloads 400 MB; `make test` installs the same list",
    "pip install 'silomq[spark]'": "it downloads 400 MB; `make test` installs the same list",
    "sudo python3 -m venv ": "it changes users and services of the machine",
    "make bench-broker": "it takes long; tests/interop/test_bench_broker.py runs a part",
    "from rocketmq.client import": (
        "it needs RocketMQ's C++ library; tests/e2e/testing runs the fixture"
    ),
}


class Block(NamedTuple):
    """One fenced block of a document."""

    document: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def is_run(self) -> bool:
        return not any(self.first.startswith(beginning) for beginning in NOT_RUN)

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.document}:{self.line}"


def documents() -> list[str]:
    """README.md, and the pages of docs/ from the ones that the others build on."""
    pages = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *pages]


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(document, text[: match.start()].count("\n") + 1, match[1], match[2])
        for match in _FENCED.finditer(text)
    ]


def all_blocks() -> list[Block]:
    return [block for document in documents() for block in blocks(document)]


def prose(document: str) -> str:
    """The document without its fenced blocks."""
    return _FENCED.sub("", (ROOT / document).read_text(encoding="utf-8"))
