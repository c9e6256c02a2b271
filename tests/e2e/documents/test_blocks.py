"""The blocks of the documents run as they stand, one after the other, in one folder with one store.

Blocks in Java and those for Spark have tests of their own (test_java.py, test_spark.py). Blocks
that cannot be run are in `blocks.NOT_RUN`, each with its reason.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from e2e.documents.blocks import NOT_RUN, ROOT, Block, all_blocks, blocks, documents, prose
from e2e.documents.expected import commands, differs
from e2e.documents.place import Place
from support.commands import SMALL_OPTIONS
from support.harness import WAIT_S, connect

from silomq import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A command that the fixture runs already, with small files.
SERVED = "silo serve --store ./store"
#: A command that waits for messages must still run after this time (s).
FOLLOWS_S = 3.0
_SERVER = re.compile(r"^silo (?:serve|dev|broker|names)\b")
_SPARK = re.compile(r"\bspark\b")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A working folder with a running store in ./store, as the quick start makes it."""
    place = Place(tmp_path_factory.mktemp("documents"))
    silo = Path(sys.executable).parent / "silo"
    with subprocess.Popen(
        [silo, *SERVED.split()[1:], *SMALL_OPTIONS], cwd=place.folder, stderr=subprocess.PIPE
    ) as process:
        try:
            connect(place.folder / "store", process).close()
            with Producer(place.folder / "store") as producer:
                place.message_id = producer.send("orders", "traced").message_id
            yield place
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)
            place.forget_memory()


def is_for_spark(block: Block) -> bool:
    """Whether test_spark.py runs the block."""
    return block.language in {"python", "console"} and bool(_SPARK.search(block.text))


def is_for_java(block: Block) -> bool:
    return block.language == "java"


@pytest.mark.parametrize("document", documents())
def test_the_blocks_of_a_document_run(place: Place, document: str) -> None:
    for block in blocks(document):
        if not block.is_run or is_for_spark(block) or is_for_java(block):
            continue
        assert block.language in RUN, f"{block.place}: no test knows how to run {block.language!r}"
        RUN[block.language](place, block)


def run_python(place: Place, block: Block) -> None:
    status, said = place.run(
        [sys.executable, "-P", "-W", "error", "-"], block, place.fit(block.text)
    )
    assert status == 0, f"{block.place}: {said}"


def run_console(place: Place, block: Block) -> None:
    """In one shell, so that a variable of one line is known in the next."""
    typed = [(command, shown) for command, shown in commands(block.text) if command != SERVED]
    if any(_SERVER.match(command) for command, _ in typed):
        assert len(typed) == 1, f"{block.place}: a server and other commands in one block"
        said = place.run_on(block, place.fit(typed[0][0]))
        why = differs(typed[0][1], said)
        assert not why, f"{block.place}: {why}"
        return
    script = []
    for number, (command, _) in enumerate(typed):
        line = place.fit(command)
        if re.search(r" (-f|--follow)\b", line):
            line = f"timeout -s INT {FOLLOWS_S} {line}\ntest $? = 124"
        script.append(f"{{ {line}\n}} > said.{number} 2>&1\ntest $? = 0 || exit {number + 1}")
    status, _ = place.run(["bash"], block, "\n".join((*script, "")))
    files = [(place.folder / f"said.{n}") for n in range(len(typed))]
    texts = [path.read_text() if path.exists() else "" for path in files]
    assert status == 0, f"{block.place}: {typed[status - 1][0]}: {texts[status - 1]}"
    for path, (command, shown), text in zip(files, typed, texts, strict=True):
        path.unlink()
        assert "Traceback" not in text, f"{block.place}: {command}: {text}"
        why = differs(shown, text)
        assert not why, f"{block.place}: {command}\n{why}"


def run_shell(place: Place, block: Block) -> None:
    """A script to its end, or servers until they are ended."""
    text = place.fit(block.text)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if all(_SERVER.match(line) for line in lines):
        place.run_on(block, text.rstrip() + ("\nwait -n" if text.rstrip().endswith("&") else ""))
        return
    # With job control, as a shell has it in which somebody types: %1 is the first job.
    (place.folder / "script").write_text(text)
    status, said = place.run(["bash", "-emx", "script"], block)
    assert status == 0, f"{block.place}: {said}"


def run_toml(place: Place, block: Block) -> None:
    """The first line names the file."""
    text = place.fit(block.text)
    assert tomllib.loads(text)
    (place.folder / block.first.removeprefix("# ")).write_text(text)


def run_ini(place: Place, block: Block) -> None:
    """A drop-in of a unit: its directives are systemd's."""
    if shutil.which("systemd-analyze") is None:
        assert os.environ.get("CI") is None, "the tests need systemd-analyze"
        pytest.skip("there is no systemd-analyze: Debian's package systemd has it")
    words = ["systemd-analyze", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    is_old = int(said.split()[1]) < 253
    text = block.text.replace("notify-reload", "notify") if is_old else block.text
    unit = place.folder / "drop-in.service"
    unit.write_text(text + "ExecStart=/bin/true\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), block.place


def run_yaml(place: Place, block: Block) -> None:
    assert yaml.safe_load(block.text)["accounts"]
    (place.folder / "etc/silomq/plain_acl.yml").write_text(block.text)


def run_json(place: Place, block: Block) -> None:
    """Files of RocketMQ's proxy, or parts of them: the tests' proxies have the same settings."""
    named = set(json.loads(block.text))
    tests = ("proxies.py", "test_proxy_accounts.py")
    text = "".join((ROOT / "tests/interop" / name).read_text() for name in tests)
    assert named <= set(re.findall(r'"(\w+)"', text)), block.place


def run_test(place: Place, block: Block) -> None:
    """A fixture for pytest, with a test that uses it."""
    folder = place.folder / "fixture"
    folder.mkdir()
    (folder / "conftest.py").write_text(block.text)
    (folder / "test_it.py").write_text(
        "def test_it(silomq_server):\n    assert ':' in silomq_server.address\n"
    )
    status, said = place.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)], block
    )
    assert status == 0, f"{block.place}: {said}"


def run_go(place: Place, block: Block) -> None:
    """A part of an example, which tests/interop/test_examples.py runs."""
    example = " ".join((ROOT / "docs/examples/go/orders_test.go").read_text().split())
    assert " ".join(block.text.split()) in example, block.place


def skip(place: Place, block: Block) -> None:
    """A picture, or the form of a command: test_command_lines.py checks commands."""


RUN = {
    "python": run_python,
    "console": run_console,
    "sh": run_shell,
    "toml": run_toml,
    "ini": run_ini,
    "yaml": run_yaml,
    "json": run_json,
    "py": run_test,
    "go": run_go,
    "text": skip,
    "mermaid": skip,
}


def test_every_exception_is_a_block() -> None:
    for beginning in NOT_RUN:
        assert any(block.first.startswith(beginning) for block in all_blocks()), beginning


def test_what_is_not_run_is_checked() -> None:
    for block in all_blocks():
        if not block.is_run and block.language == "py":
            ast.parse(block.text)
        if not block.is_run and block.language == "sh":
            done = subprocess.run(["bash", "-n"], input=block.text, text=True, check=False)
            assert done.returncode == 0, block.place
            for task in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE):
                assert re.search(rf"^{task}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("document", documents())
def test_no_code_escapes_the_tests(document: str) -> None:
    """Code is in fenced blocks that name their language, because this test finds only those."""
    text = prose(document)
    assert "```" not in text
    assert not re.findall(r"^ {4}(?! *[-*|\d<])\S.*$", text, re.MULTILINE)
    assert all(block.language for block in blocks(document))


def test_a_mask_is_no_blank_cheque() -> None:
    shown = ["PUT_OK orders[1]@0 C0000202393A6A5747F268FBDB790001"]
    assert not differs(shown, "PUT_OK orders[3]@17 C0000202393A6A5747F268FBDB79AAAA\n")
    assert differs(shown, "PUT_OK orders[3]@17 C000\n")
    assert differs(shown, "PUT_OK others[3]@17 C0000202393A6A5747F268FBDB79AAAA\n")
    assert not differs(["a", "...", "c"], "a\nb\nc\n")
    assert differs(["a", "..."], "b\n")
    assert differs(["a", "b"], "b\na\n")
