"""The blocks of these documents run as they stand, one after the other."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.commands import SMALL_OPTIONS
from support.harness import WAIT_S, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    "README.md",
    "docs/consuming.md",
    "docs/request-reply.md",
    "docs/transactions.md",
)
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Sections whose blocks need more than a store: Spark (tests/spark runs such jobs), root.
ELSEWHERE = ("On Spark", "As a systemd service")
#: A command that runs until Ctrl-C must still run after this time (s).
RUNS_ON_S = 5.0


class Block(NamedTuple):
    """One fenced block of a document, and the section that it stands in."""

    document: str
    section: str
    language: str
    text: str


def blocks() -> list[Block]:
    found = []
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for match in _FENCED.finditer(text):
            titles = re.findall(r"^## (.*)$", text[: match.start()], re.MULTILINE)
            found.append(Block(document, titles[-1] if titles else "", match[1], match[2]))
    return [block for block in found if block.section not in ELSEWHERE]


def commands(block: Block) -> list[str]:
    return [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder with a running store in ./store, as the quick start makes it."""
    folder = tmp_path_factory.mktemp("documents")
    silo = Path(sys.executable).parent / "silo"
    with subprocess.Popen(
        [silo, "serve", "--store", "./store", *SMALL_OPTIONS], cwd=folder, stderr=subprocess.PIPE
    ) as process:
        try:
            connect(folder / "store", process).close()
            yield folder
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)
    shutil.rmtree(folder)


def run(arguments: list[str], place: Path, text: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "SILOMQ_STORE_PATH": "./store"}
    return subprocess.run(
        arguments,
        cwd=place,
        env=environment,
        input=text,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )


def run_commands(place: Path, lines: list[str]) -> None:
    """In one shell, so that a variable of one line is known in the next. The store runs already,
    and a command that follows a topic is ended after a while.
    """
    script = []
    for line in lines:
        if line.startswith("silo serve"):
            continue
        if re.search(r" (-f|--follow)\b", line):
            script.append(f"timeout -s INT {RUNS_ON_S} {line}\ntest $? = 124")
        else:
            script.append(f"{line}\ntest $? = 0")
    done = run(["bash"], place, " || exit 1\n".join((*script, "")))
    assert done.returncode == 0, (lines, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr


def test_the_blocks_run_as_they_stand(place: Path) -> None:
    ran = 0
    for block in blocks():
        if block.language == "python":
            done = run([sys.executable, "-P", "-W", "error", "-"], place, block.text)
            assert done.returncode == 0, (block, done.stdout, done.stderr)
        elif block.language == "console":
            run_commands(place, commands(block))
        else:
            continue
        ran += 1
    assert ran >= 11


def test_the_quick_start_prints_what_it_says(place: Path) -> None:
    """The printed lines of the quick start have the form that they have in the document."""
    quick = next(b for b in blocks() if b.section == "Quick start" and "silo send" in b.text)
    assert re.search(r"^PUT_OK orders\[\d\]@\d+ [0-9A-F]{32}$", quick.text, re.MULTILINE)
    done = run(["silo", "send", "orders", "one coffee"], place, "")
    assert re.fullmatch(r"PUT_OK orders\[\d\]@\d+ [0-9A-F]{32}\n", done.stdout)
    done = run(["silo", "send", "numbers"], place, "".join(f"{n}\n" for n in range(1000)))
    assert re.fullmatch(r"1,000 messages stored in [\d.]+ s, [\d,]+ a second\n", done.stderr)
