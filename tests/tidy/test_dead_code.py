"""The package has no unused code. Code that only tests use belongs in tests/support.

A name of a Python module counts as used if it is read outside its definition: in its own file, or
in a file that imports the module or the name. A method or an attribute counts as used if any file
reads an attribute of that name outside its definition, because the text does not tell the class. A
name of a C header, or one that Cython declares, counts as used if it occurs on another line of
Cython or C. An assignment, a keyword argument, or a test does not count as a use.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tidy.definitions import EXTERN, Source, read
from tidy.sources import files, module_name, project, sources

import silomq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidy.definitions import Definition

#: Names that code outside the package reads, and where.
READ_BY_OTHERS = {
    "LAYOUT": "tests/tidy/test_layouts.py compares it with the layout table",
    "LAYOUTS": "tests/tidy/test_layouts.py compares it with the layout tables",
    "WRITERS": "tests/tidy/test_writers.py compares it with the layout tables",
}
#: Classes whose fields are all written to a file or sent in an answer, and to which.
WHOLE = {
    "bench/harness/results/model.py: Run": "the file of results",
    "bench/harness/workload/openmessaging.py: _File": "the keys of OpenMessaging Benchmark's file",
    "names/processor.py: _MasterOf": "the fields of an answer",
    **{
        f"shm/protocol/broker_status.py: {name}": "the document that `silo status` shows"
        for name in ("BrokerStatus", "Group")
    },
    "broker/admin/groups.py: _Config": "passed on whole to the registry",
    "shm/protocol/requests.py: SetGroup": "goes into RocketMQ's subscriptionGroup.json",
    "shm/history.py: Row": "the rows of the history, which the layout lists",
    "store/commitlog/seals.py: Seal": "a JSON file",
    "store/config/offsets.py: GroupConfig": "RocketMQ's subscriptionGroup.json",
    "store/recovery/plan.py: Report": "the report of a start",
}
#: Other unused names, and why they are kept.
EXCEPTIONS = {
    **dict.fromkeys(
        (
            "names/server.py: Connection.connection_made",
            "names/server.py: Connection.connection_lost",
            "names/server.py: Connection.data_received",
            "names/server.py: Connection.pause_writing",
            "names/server.py: Connection.resume_writing",
        ),
        "asyncio calls the methods of a protocol",
    ),
    **dict.fromkeys(
        ("cli/bench/bench.py: _Group.get_command", "cli/bench/bench.py: _Group.list_commands"),
        "click calls the methods of a group",
    ),
    **dict.fromkeys(
        (
            "monitor/server.py: _Handler.server_version",
            "monitor/server.py: _Handler.sys_version",
            "monitor/server.py: _Loopback6Server.address_family",
            "monitor/server.py: _LoopbackServer.allow_reuse_address",
            "monitor/server.py: _Threads.daemon_threads",
        ),
        "the server of the standard library reads them",
    ),
    "cli/running/topics.py: delete_topic": "`silo` finds a command by its name",
    "conf/logging.py: _Lines.debug": "structlog calls a logger's methods by the level",
    **dict.fromkeys(
        ("store/record/format.py: SYS_MULTI_TAGS",),
        "the table of flags that record.h is held against; the append kernel uses them",
    ),
    "shm/_checksum.pyx: variants": "a test runs each variant that the CPU knows",
    "shm/_checksum.pyx: use_variant": "a test runs each variant that the CPU knows",
}
#: Base classes from other packages that do not call methods of their subclasses by name.
_PLAIN_BASES = {"Exception", "ValueError", "object", "NamedTuple", "Struct", "dict", "Protocol"}
_ENUMS = {"Enum", "IntEnum", "IntFlag", "StrEnum", "Flag"}


class Package:
    """All sources, and for each name the sources in which it occurs."""

    def __init__(self, found: Sequence[Source]) -> None:
        self.sources = found
        self.bases = {name: bases for one in found for name, bases in one.bases.items()}

        self.users: dict[str, list[Source]] = {}
        for source in found:
            imported = {name.rpartition(".")[2] for name in source.imports}
            for name in {*source.names, *source.attributes, *imported}:
                self.users.setdefault(name, []).append(source)

    def dead(self) -> list[Definition]:
        """Definitions that no code uses, the lists of exceptions not considered."""
        return [
            what
            for source in self.sources
            for what in source.definitions
            if not what.name.startswith("__")
            and not self._is_called_from_outside(what)
            and not any(self._uses(user, source, what) for user in self.users.get(what.name, ()))
        ]

    def _uses(self, user: Source, source: Source, what: Definition) -> bool:
        lines = [
            number
            for number in self._mentions(user, source, what)
            if user is not source or not what.first <= number <= what.last
        ]
        return bool(lines)

    @staticmethod
    def _mentions(user: Source, source: Source, what: Definition) -> list[int]:
        """The lines of `user` that may mean the definition."""
        compiled = user.path.suffix != ".py"
        if what.owner == EXTERN or source.path.suffix == ".h":
            return user.names.get(what.name, []) if compiled else []
        if what.owner or source.path.suffix != ".py":
            return user.attributes.get(what.name, []) + (
                [] if what.owner and not compiled else user.names.get(what.name, [])
            )
        if user is source:
            return user.names.get(what.name, [])
        module = module_name(source.path)
        if f"{module}.{what.name}" in user.imports:
            return [0]  # ruff finds imports that are not used
        return user.attributes.get(what.name, []) if module in user.imports else []

    def _is_called_from_outside(self, what: Definition) -> bool:
        """Whether users of the package, a framework, or the tests of formats use the definition."""
        called = (".command(", ".group(", "pytest.fixture")
        if any(word in one for word in called for one in what.decorators):
            return True
        if not what.owner or what.owner == EXTERN:
            return what.name in READ_BY_OTHERS or _is_entry_point(what)
        ancestors = set(self._ancestors(what.owner))
        if ancestors & _ENUMS:
            return True  # the members of an enumeration are the values of a format
        if what.is_function and ancestors - set(self.bases) - _PLAIN_BASES:
            return True  # a method that another package's class calls
        return what.owner in self.public_classes and not what.name.startswith("_")

    def _ancestors(self, name: str) -> Iterator[str]:
        for base in filter(None, self.bases.get(name, [])):
            yield base
            yield from self._ancestors(base)

    @functools.cached_property
    def public_classes(self) -> set[str]:
        """The classes of the public interface and what they inherit from."""
        public = set(silomq.__all__)
        return public | {base for name in public for base in self._ancestors(name)}


def _is_entry_point(what: Definition) -> bool:
    scripts = project()["project"]["scripts"].values()
    return f"{module_name(Path(what.file))}:{what.name}" in scripts


@functools.cache
def package() -> Package:
    paths = sources(".py", ".pyx", ".pxd", ".h")
    return Package([read(path) for path in paths] + _users())


def _users() -> list[Source]:
    """Other shipped code that uses the package: PySpark looks up the names that it defines."""
    paths = [p for p in files() if p.parts[0] == "pyspark_silomq" and p.suffix == ".py"]
    return [replace(read(path), definitions=[]) for path in paths]


@functools.cache
def unused() -> dict[str, str]:
    """The full names of unused definitions, and of each the class that it belongs to."""
    return {one.full_name: f"{one.file}: {one.owner}" for one in package().dead()}


def test_no_name_is_unused() -> None:
    dead = {name for name, of in unused().items() if name not in EXCEPTIONS and of not in WHOLE}
    assert not dead, "remove it, or move it to tests/support if tests use it"


def test_exceptions_are_needed() -> None:
    assert set(EXCEPTIONS) <= set(unused()), "take it from EXCEPTIONS"
    assert set(WHOLE) <= set(unused().values()), "take it from WHOLE"


PYTHON = """
USED = 1
UNUSED = 2
ROWS: int = 3

def used(): return USED + ROWS
def unused(): return unused()

class A:
    field: int = 0
    def __init__(self): self.kept = self.lost = used()
    def read(self): return self.kept
    def called(self): return self.read()
    def forgotten(self): return self.forgotten()

class Widget(Framework):
    def framework_calls(self): ...

A().called()
Widget()
"""
CYTHON = """
cdef extern from "a.h" nogil:
    int USED_CONSTANT, DEAD_CONSTANT
    void silo_used(int a)
    void silo_dead(int a)

cdef inline int helper(int a): # helper2
    return a

cdef int helper2(int a):
    return helper(a)

cdef class K:
    cdef readonly int seen
    cdef int m(self, int a) nogil:
        silo_used(USED_CONSTANT)
        return self.m(a)

def entry(
    K k,
):
    entry(k)
    "silo_dead()"
    return k
"""
HEADER = """
/* silo_dead is mentioned here */
enum { USED_CONSTANT = 1, };
enum {
    DEAD_CONSTANT = 2,
};
static inline void silo_used(int a) {
    a = a;
}
static inline void silo_dead(int a) { silo_dead(a); }
"""


@pytest.mark.parametrize(
    ("files_", "expected"),
    [
        ({"conf/a.py": PYTHON}, {"UNUSED", "unused", "A.field", "A.lost", "A.forgotten"}),
        (
            {"shm/a.pyx": CYTHON, "shm/a.h": HEADER},
            {"DEAD_CONSTANT", "silo_dead", "helper2", "K.seen", "K.m", "entry"}
            | {"extern.DEAD_CONSTANT", "extern.silo_dead"},
        ),
    ],
)
def test_dead_names_are_found(files_: dict[str, str], expected: set[str]) -> None:
    found = Package([read(Path(name), text) for name, text in files_.items()]).dead()
    assert {one.full_name.partition(": ")[2] for one in found} == expected


def test_a_name_is_used_where_its_module_is_imported() -> None:
    definer = read(Path("conf/a.py"), "def load(): ...\n")
    stranger = read(Path("conf/b.py"), "x.load()\nload()\n")
    assert [one.name for one in Package([definer, stranger]).dead()] == ["load"]
    stranger.imports = {"silomq.conf.a"}
    assert not Package([definer, stranger]).dead()
    stranger.attributes.clear()
    assert [one.name for one in Package([definer, stranger]).dead()] == ["load"]
    stranger.imports = {"silomq.conf.a.load"}
    assert not Package([definer, stranger]).dead()
