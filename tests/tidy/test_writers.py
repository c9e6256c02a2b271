"""Every shared word has one writer, and it is the same in layout tables, Python and kernels."""

from __future__ import annotations

import ast
import importlib
import re
from typing import TYPE_CHECKING

import pytest
from tidy.layout_tables import tables
from tidy.sources import ROOT, module_name, nodes, of_each, parsed, sources

from silomq.shm import bell, control, metrics, ring
from silomq.shm.ownership import STARTUP
from silomq.store.topics import table_layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The modules that own layouts of shared memory.
OWNERS = [path for path in sources(".py") if "\nWRITERS" in (ROOT / path).read_text("utf-8")]
ROLES = {*control.ACTORS, "supervisor", "producer", "client", "member", "each"}
#: The role that runs the code of a folder or a file. The longest matching prefix counts.
RUN_BY = {
    **{f"actors/{name}": name for name in control.ACTORS},
    "supervisor/": "supervisor",
    "supervisor/prepare": STARTUP,  # at its end it takes the role "supervisor"
    "tools/repair": STARTUP,
    "store/recovery/": STARTUP,
    "store/dispatch/": "reput",  # start-up runs it as well
    "store/topics/table_changes": "registry",
    "store/commitlog/_append": "append",
    "store/commitlog/answers": "append",
    "client/_bell": "client",
    "client/reads": "client",
    "client/producing/_ring": "producer",
    "shm/ringwriter": "producer",
}
#: The modules that make handles that can store. Other modules get their handles from these.
MAKERS = {
    "shm/control.py",
    "shm/history.py",
    "shm/metrics.py",
    "shm/reads.py",
    "shm/ring.py",
    "store/topics/topic_table.py",
    "store/topics/session_words.py",
    "client/groups/membership.py",  # a word in the process's own memory, on which it sleeps
    "client/groups/pop_reader.py",  # the same
}
QUEUE_FIELDS = {"id": "queue_id", "name": "name_start"}


def _role(path: Path) -> str:
    beginnings = [name for name in RUN_BY if str(path).startswith(name)]
    return RUN_BY[max(beginnings, key=len)] if beginnings else ""


def _writer_in_table(meaning: str) -> str:
    who, colon, _ = meaning.partition(": ")
    return who if colon and who in ROLES else STARTUP


def test_the_shared_layouts() -> None:
    assert [str(path) for path in OWNERS] == [
        "shm/bell.py",
        "shm/board.py",
        "shm/control.py",
        "shm/history.py",
        "shm/metrics.py",
        "shm/reads.py",
        "shm/ring.py",
        "store/groups/ack_file.py",
        "store/topics/table_layout.py",
    ]


@pytest.mark.parametrize("path", OWNERS, ids=str)
def test_tables_and_code_name_the_same_writers(path: Path) -> None:
    module = importlib.import_module(module_name(path))
    written = {
        name: {row.field: _writer_in_table(row.meaning) for row in rows}
        for name, rows in tables(module.__doc__ or "").items()
        if name in module.WRITERS
    }
    coded = {
        name: {field: writers.get(field, STARTUP) for field in module.LAYOUTS[name]}
        for name, writers in module.WRITERS.items()
    }
    assert written == coded
    assert set(module.LAYOUTS) == set(module.WRITERS)
    assert all(set(writers) <= set(module.LAYOUTS[n]) for n, writers in module.WRITERS.items())


def _taken(path: Path) -> Iterator[tuple[str, str]]:
    """(field, its writer) of every `own("field")` and `own_queue_word(slot, "field")` of a file."""
    for node in nodes(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        if called == "own":
            field = _constant(node.args[0])
            yield field, _writer(field)
        elif called == "own_histogram":
            field = _constant(node.args[0])
            yield field, metrics.WRITERS["metrics"][field]
        elif called == "own_queue_word":
            field = _constant(node.args[1])
            yield field, table_layout.WRITERS["queue"][field]


def _writer(field: str) -> str:
    for layout, writers in (
        (ring.RING, ring.WRITERS["ring"]),
        (metrics.METRICS, metrics.WRITERS["metrics"]),
    ):
        if field in layout:
            return writers.get(field, STARTUP)
    return control.WRITERS["control"].get(field, STARTUP)


def _constant(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


@of_each([p for p in sources(".py") if str(p) not in MAKERS])
def test_processes_ask_for_their_own_words(path: Path) -> None:
    role = _role(path)
    others = {
        field: writer for field, writer in _taken(path) if field and role not in {writer, STARTUP}
    }
    assert not others, f"words that are not of {role or 'a reader'}"


def test_no_word_of_the_control_block_is_without_its_writer() -> None:
    by_role: dict[str, set[str]] = {}
    for path in sources(".py"):
        if str(path) not in MAKERS and (role := _role(path)):
            by_role.setdefault(role, set()).update(field for field, _ in _taken(path))
    for path in KERNELS:
        by_role.setdefault(_role(path), set()).update(_stored(path).get("CONTROL", ()))
    by_role["registry"] |= {"watched"}  # through Control.watch
    by_role["supervisor"] |= {"process"}  # through Control.store_process
    by_role["supervisor"] |= by_role[STARTUP] & {"generation", "started_ms"}  # once, at its start
    by_role["each"] = {"heartbeat"}  # through Control.own_beat
    missing = {
        field: writer
        for field, writer in control.WRITERS["control"].items()
        if field not in by_role[writer]
    }
    assert not missing


KERNELS = [
    path
    for path in sources(".pyx", ".h")
    if "silo_store(" in (ROOT / path).read_text("utf-8")
    and path.parts[0] != "bench"  # measures memory of its own
    and (path.suffix == ".pyx" or path.name == "answers.h")
    and str(path) != "shm/_words.pyx"
]
_STORE = re.compile(r"\bsilo_store\((\w+(?:\.\w+)*)([^,]*),")
_NAME = re.compile(r"\b(CONTROL|QUEUE|RING|BELL)_(\w+)")


def _stored(path: Path) -> dict[str, set[str]]:
    """Layout prefix -> fields that a kernel stores to. A store through a variable counts for the
    field that was last assigned to the variable.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for match in _STORE.finditer(text):
        names = _NAME.findall(match[2])
        if not names:
            assigned = list(
                re.finditer(rf"\b{match[1]} = ((?:[^\n(]|\([^)]*\))*)", text[: match.start()])
            )
            names = _NAME.findall(assigned[-1][1]) if assigned else []
        assert names, f"{path}: a store to an unknown field: {match[0]}"
        for prefix, name in names:
            found.setdefault(prefix, set()).add(name.lower())
    return found


@pytest.mark.parametrize("path", KERNELS, ids=str)
def test_kernels_store_to_their_own_words(path: Path) -> None:
    writers = {
        "CONTROL": control.WRITERS["control"],
        "RING": ring.WRITERS["ring"],
        "BELL": bell.WRITERS["bell"],
        "QUEUE": table_layout.WRITERS["queue"],
    }
    stored = _stored(path)
    assert stored
    for prefix, fields in stored.items():
        for field in fields:
            name = QUEUE_FIELDS.get(field, field) if prefix == "QUEUE" else field
            assert writers[prefix].get(name) == _role(path), f"{prefix}_{field.upper()}"


def test_the_kernels_are_known() -> None:
    assert {str(path): _role(path) for path in KERNELS} == {
        "client/_bell.pyx": "client",
        "client/producing/_ring.pyx": "producer",
        "store/commitlog/_append.pyx": "append",
        "store/commitlog/answers.h": "append",
        "store/dispatch/_dispatch.pyx": "reput",
        "store/dispatch/_follow.pyx": "reput",
    }


def test_handles_that_store_come_from_the_owners_of_layouts() -> None:
    made = {
        str(path)
        for path in sources(".py")
        for node in nodes(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "OwnedWord"
    }
    assert made == MAKERS
