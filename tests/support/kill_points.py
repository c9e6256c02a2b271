"""Fault points: a process dies at a named point of the code, once. Only one build has them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.harness import LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _pytest.mark import ParameterSet

    Passes = tuple[int, ...]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def fault_build() -> Path:
    """The folder of the build with fault points, for PYTHONPATH. CI must have one."""
    folder = os.environ.get("SILOMQ_FAULT_BUILD", "")
    if not folder:
        why = "no SILOMQ_FAULT_BUILD: `make fault-build` makes it, `make test` sets it"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return Path(folder)


@dataclass(frozen=True)
class Fault:
    """The death of whoever passes `point` for the `passes`th time while the token lies there.

    The process removes the token when it dies, so its successor lives.
    """

    build: Path
    folder: Path
    point: str
    passes: int = 1

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def actor(self) -> str:
        return self.point.partition(":")[0]

    @property
    def environ(self) -> dict[str, str]:
        """What makes a store's processes die there."""
        path = [str(self.build), os.environ.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "SILOMQ_FAULT": f"{self.point}:{self.passes}",
            "SILOMQ_FAULT_TOKEN": str(self.token),
        }

    def arm(self) -> Fault:
        """Lays the token down."""
        self.token.touch()
        return self

    def happened(self) -> bool:
        return not self.token.exists()

    def assert_happened(self) -> None:
        assert self.happened(), f"{self.point} was not passed {self.passes} times"


def deaths(points: Mapping[str, tuple[Passes, Passes]]) -> list[ParameterSet]:
    """(point, pass) for a test. A point has the passes of the short form, and those that the long
    form adds.
    """
    return [
        pytest.param(point, n, marks=marks)
        for point, (short, more) in points.items()
        for passes, marks in ((short, ()), (more, LONG))
        for n in passes
    ]


def points_in(files: Iterable[Path]) -> set[str]:
    """The fault points that these source files have."""
    found: set[str] = set()
    for file in files:
        found |= set(re.findall(r'(?:SILO_FAULT|fault)\("([a-z:]+)"\)', file.read_text("utf-8")))
    return found
