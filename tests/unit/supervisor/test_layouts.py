"""What two releases must have in common to run beside one another."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import silomq
from silomq.shm import ring
from silomq.supervisor.layouts import OWNERS, differences, marks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(silomq.__file__).parent


def owners_of_layouts() -> Iterator[ModuleType]:
    for package in ("shm", "store"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "\nLAYOUT" in text:
                name = ".".join(("silomq", *path.relative_to(ROOT).with_suffix("").parts))
                module = importlib.import_module(name)
                if hasattr(module, "LAYOUTS") or hasattr(module, "LAYOUT"):
                    yield module


def test_every_layout_is_compared() -> None:
    found = {module.__name__ for module in owners_of_layouts()}
    assert found == {module.__name__ for module in OWNERS}


def test_a_field_that_moves_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = marks()
    assert differences(ours, marks()) == []
    at, size = ring.RING["head"]
    monkeypatch.setattr(
        ring, "LAYOUTS", {**ring.LAYOUTS, "ring": {**ring.RING, "head": (at + 8, size)}}
    )
    assert differences(ours, marks()) == ["shm.ring: ring"]


def test_what_one_side_lacks_is_a_difference() -> None:
    ours = marks()
    theirs = {**ours, "shm.new: page": "1"}
    del theirs["protocol"]
    assert differences(ours, theirs) == ["protocol", "shm.new: page"]
