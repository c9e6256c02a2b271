"""Settings that may change at run time: no other process reads them than the table says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import silomq
from silomq.conf.live import LIVE
from silomq.conf.settings import Settings
from silomq.shm.control import ACTORS

PACKAGE = Path(silomq.__path__[0])
#: The code that each process alone runs, by path; all else of these packages is shared.
OF_ACTOR = {
    **{f"actors/{name}.py": (name,) for name in ACTORS},
    **{f"actors/{name}/": (name,) for name in ("registry", "schedule", "transactions")},
    "actors/append_sessions.py": ("append",),
    # Both of these make topics for messages of their own.
    "actors/goal_topics.py": ("schedule", "transactions"),
    "supervisor/": (),
    # Its limit of slow steps is for the actors that measure any.
    "actors/actor.py": tuple(
        name
        for name in ACTORS
        if (file := PACKAGE / "actors" / f"{name}.py").is_file()
        and "own_histogram" in file.read_text("utf-8")
    ),
    # Also `silo retention explain`, which is no process of the store.
    "store/retention/judgement.py": ("clean",),
}
#: Read in code that several processes share, or only at the start of a store.
AT_START = {
    "store/recovery/apply.py: default_topic_queue_nums",
    "store/recovery/look.py: default_topic_queue_nums",
    "supervisor/prepare.py: admin_group",
}


def readers() -> dict[str, set[str]]:
    """Setting -> the files that read it."""
    found: dict[str, set[str]] = {}
    for package in ("actors", "supervisor", "store"):
        for path in (PACKAGE / package).rglob("*.py"):
            file = str(path.relative_to(PACKAGE))
            for name in re.findall(r"settings\.([a-z_]+)", path.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(file)
    return found


def processes_of(file: str) -> tuple[str, ...] | None:
    return next((who for path, who in OF_ACTOR.items() if file.startswith(path)), None)


@pytest.mark.parametrize("name", LIVE)
def test_only_these_actors_read_it(name: str) -> None:
    assert name in Settings.__struct_fields__
    if name in ("log_level", "log_format"):
        return  # a word of the control block tells everybody
    files = [f for f in readers().get(name, ()) if f"{f}: {name}" not in AT_START]
    assert files, "nobody reads it: it has no effect"
    found: set[str] = set()
    for file in files:
        who = processes_of(file)
        assert who is not None, f"{file} is shared by several processes"
        found |= set(who)
    assert found == set(LIVE[name])


def test_what_lies_on_the_disk_or_in_memory_cannot_change() -> None:
    fixed = {"store_path", "flush_disk_type", "transient_store_pool_enable", "max_message_size"}
    fixed |= {name for name in Settings.__struct_fields__ if name.startswith("mapped_file_size")}
    assert not fixed & LIVE.keys()


def test_the_documentation_has_each_of_them() -> None:
    page = Path(__file__).parents[3] / "docs" / "service.md"
    rows = re.findall(r"^\| (`[a-z_` ]+`) \| ([a-z, ]+) \|$", page.read_text(), re.MULTILINE)
    found = {
        name: () if actors == "nothing" else tuple(actors.split(", "))
        for names, actors in rows
        for name in re.findall(r"[a-z_]+", names)
    }
    assert found == LIVE
