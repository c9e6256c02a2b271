"""Imports run one way: between packages, between the rooms of a package, and between files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from tidy.imports import circles, graph, imported
from tidy.sources import PACKAGES, ROOMS, ROOT, nodes, of_each, parsed, project, sources

if TYPE_CHECKING:
    from pathlib import Path

#: The packages that each package may import, besides itself. "" is the root package `silomq`.
ALLOWED = {
    "": {"client", "store"},
    "conf": set(),
    "shm": {"conf"},
    "store": {"conf", "shm"},
    "actors": {"conf", "shm", "store"},
    "supervisor": {"conf", "shm", "store", "actors", ""},
    "client": {"conf", "shm", "store"},
    "tools": {"conf", "shm", "store", "actors"},
    "broker": {"conf", "shm", "store", "client"},
    "monitor": {"shm", "store", "client", ""},
    "names": {"conf", "store", "broker"},
    "testing": {"store", "client"},
    "pipeline": {"conf", "shm", "store", "client", "tools", ""},
    "cli": {
        "conf",
        "store",
        "client",
        "supervisor",
        "tools",
        "pipeline",
        "broker",
        "monitor",
        "names",
        "bench",
        "",
    },
    "bench": {
        "conf",
        "shm",
        "store",
        "actors",
        "supervisor",
        "client",
        "tools",
        "broker",
        "pipeline",
        "",
    },
}
#: The floors of each package, the lowest first. Within its package a room imports from lower floors
#: only. "" stands for the files in the package's own folder.
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "shm": (("",), ("protocol",)),
    "store": (
        ("",),
        ("disk", "record"),
        ("config", "consumequeue", "filters", "groups"),
        ("topics",),
        ("commitlog", "delay"),
        ("index", "reading", "transactions"),
        ("dispatch", "retention"),
        ("recovery",),
    ),
    "client": (
        ("",),
        ("admin", "consuming", "producing"),
        ("groups", "lookup"),
        ("requests", "transactions"),
    ),
    "broker": (
        ("statistics", "wire"),
        ("loop",),
        ("link",),
        ("groups",),
        ("access",),
        ("processors",),
        ("admin", "routes"),
        ("",),
    ),
    "actors": (("",), ("registry", "schedule", "transactions")),
    "tools": (("doctor", "holes", "raw"), ("backup", "rocketmq"), ("", "verify")),
    "pipeline": (("",), ("sink",), ("source",), ("spark",), ("jobs",)),
    "cli": (
        ("shared",),
        ("bench", "offline", "running", "systemd"),
        ("demo", "spark"),
        ("",),
    ),
    "bench": (
        ("",),
        ("broker", "spark"),
        ("harness", "harness/load"),
        ("harness/results",),
        ("harness/targets", "harness/workload"),
        ("harness/targets/peers",),
        ("harness/run",),
        ("harness/suite",),
    ),
}
#: Modules that `import silomq` must not load: each import makes a user's process start later.
NOT_IN_CLIENTS = ("structlog", "rich", "click", "asyncio")


def _package(file: str) -> str:
    return file.split("/", 1)[0] if "/" in file else ""


def _room(file: str) -> str:
    """The room of a file within its package."""
    return "/".join(file.split("/")[1:-1])


def _floor(file: str) -> int:
    floors = FLOORS[_package(file)]
    return next(number for number, rooms in enumerate(floors) if _room(file) in rooms)


@of_each(sources(".py", ".pyx", ".pxd", ".pyi"))
def test_imports_between_packages_run_one_way(path: Path) -> None:
    package = _package(str(path))
    seen = set()
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "silomq":
            seen.add(parts[1] if len(parts) > 1 and parts[1] in PACKAGES else "")
    assert seen <= ALLOWED[package] | {package}


def test_imports_between_rooms_run_down() -> None:
    upwards = [
        (file, other)
        for file, others in graph().items()
        for other in others
        if _package(file) == _package(other) in FLOORS
        and _room(file) != _room(other)
        and _floor(file) <= _floor(other)
    ]
    assert not upwards


def test_circles_are_found() -> None:
    edges = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["e"], "e": ["f"], "f": ["d", "a"]}
    assert circles(edges) == [["b", "c"], ["d", "e", "f"]]


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not circles(graph())


def test_the_map_shows_the_floors_of_the_store() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^\| (\d) \| ((?:`\w+`(?:, )?)+) \|$", text, re.MULTILINE)
    found = {int(number): tuple(re.findall(r"\w+", rooms)) for number, rooms in drawn}
    assert found == {n: rooms for n, rooms in enumerate(FLOORS["store"], 1) if rooms != ("",)}


def test_every_room_has_one_floor() -> None:
    rooms = [
        f"{package}/{room}" if room else package
        for package, floors in FLOORS.items()
        for floor in floors
        for room in floor
    ]
    assert len(set(rooms)) == len(rooms)
    assert {room for room in rooms if "/" in room} == set(ROOMS)


@of_each(sources(".py"))
def test_imports_inside_are_relative(path: Path) -> None:
    tree = parsed(path)
    roots = {
        alias.name.split(".")[0]
        for n in nodes(tree)
        if isinstance(n, ast.Import)
        for alias in n.names
    }
    roots |= {
        (node.module or "").split(".")[0]
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert not roots & {"silomq", "tests", *PACKAGES}


@of_each(sources(".py"))
def test_what_is_imported_at_run_time_is_declared(path: Path) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    roots = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""] * (not node.level)
        )
    }
    with_others = {"cli": {"py4j"}, "testing": {"pytest"}}  # pyspark brings py4j
    declared = _declared() | with_others.get(_package(str(path)), set())
    assert roots <= set(sys.stdlib_module_names) | declared


def _declared() -> set[str]:
    """The modules of the packages that users of SiloMQ have: all but those of the extra `dev`."""
    about = project()["project"]
    extras = about["optional-dependencies"]
    wanted = [*about["dependencies"]]
    wanted += [one for name, some in extras.items() if name != "dev" for one in some]
    names = {re.split(r"[^\w-]", one)[0].replace("-", "_") for one in wanted}
    modules = {"pyyaml": "yaml", "hdrhistogram": "hdrh", "nats_py": "nats"}
    return {modules.get(name, name) for name in names}


def test_a_client_imports_little() -> None:
    code = f"import sys, silomq; print([m for m in {NOT_IN_CLIENTS!r} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_layers_name_every_package() -> None:
    assert set(ALLOWED) == {"", *PACKAGES}
