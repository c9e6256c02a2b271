"""`Suite`: every key of a suite's file (TOML), with its type and its bounds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ..results.figures import BY_KEY
from ..workload.load import BadWorkload, Plan, load

_FOLDER = Path(__file__).parent
_MOST_FILE = 1 << 20
_Name = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
_Changes = Annotated[list[str], Meta(max_length=100)]
_Runs = Annotated[int, Meta(ge=1, le=1000)]
_Factor = Annotated[float, Meta(gt=0, le=1e12)]
#: Of things that drift none is allowed.
_Most = Annotated[float, Meta(ge=0, le=1e12)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Part(_Table, frozen=True):
    """`[[parts]]`: a workload that each of `targets` runs. `set` changes keys of the workload as
    `silo bench run --set` does, `also` further ones for one target. `runs` is the number of its
    rounds, if it has its own.
    """

    name: _Name
    workload: Annotated[str, Meta(min_length=1, max_length=4096)]
    targets: Annotated[list[_Name], Meta(min_length=1, max_length=20)]
    set: _Changes = []
    also: dict[str, _Changes] = {}
    runs: _Runs | None = None

    def __post_init__(self) -> None:
        if len(set(self.targets)) < len(self.targets):
            raise ValueError(f"part {self.name}: targets: each once")
        for name in self.also:
            if name not in self.targets:
                raise ValueError(f"part {self.name}: also.{name}: none of its targets")


class Bar(_Table, frozen=True):
    """`[[bars]]`: a `figure` of a `target` in a `part`, at a `step` of its sweep. It is divided by
    the same figure of other targets (`beside`) or at another step (`beside_step`), or by limits of
    the machine (`beside_limits`). It must be `at_least` or `at_most` so much. `beside_figure` is
    another figure of the same runs, which is shown and divides nothing.
    """

    title: Annotated[str, Meta(min_length=1, max_length=200)]
    part: _Name
    figure: str
    target: _Name = "silomq"
    step: float | None = None
    beside: Annotated[list[_Name], Meta(max_length=20)] = []
    beside_step: float | None = None
    beside_limits: Annotated[list[str], Meta(max_length=20)] = []
    beside_figure: str = ""
    at_least: _Factor | None = None
    at_most: _Most | None = None

    def __post_init__(self) -> None:
        for key, name in (("figure", self.figure), ("beside_figure", self.beside_figure)):
            if name not in BY_KEY and (name or key == "figure"):
                raise ValueError(f"bar {self.title}: {key}: one of {', '.join(BY_KEY)}")
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"bar {self.title}: at_least, at_most: give one of them")
        given = self.beside, self.beside_step is not None, self.beside_limits, self.beside_figure
        if sum(map(bool, given)) > 1:
            raise ValueError(
                f"bar {self.title}: beside, beside_step, beside_limits, beside_figure: give one"
            )


class Suite(_Table, frozen=True):
    """A whole file. `runs` is the number of rounds. `set` changes keys of all workloads."""

    parts: Annotated[list[Part], Meta(min_length=1, max_length=200)]
    description: Annotated[str, Meta(max_length=1000)] = ""
    runs: _Runs = 5
    set: _Changes = []
    bars: Annotated[list[Bar], Meta(max_length=500)] = []

    def __post_init__(self) -> None:
        known = {part.name: part for part in self.parts}
        if len(known) < len(self.parts):
            raise ValueError("parts: each name once")
        for bar in self.bars:
            part = known.get(bar.part)
            if part is None:
                raise ValueError(f"bar {bar.title}: part {bar.part}: one of {', '.join(known)}")
            for name in (bar.target, *bar.beside):
                if name not in part.targets:
                    raise ValueError(f"bar {bar.title}: {name}: no target of part {bar.part}")

    def plan(self, part: Part, target: str) -> Plan:
        """The workload of a part for one target. Raises BadWorkload, OSError."""
        changes = [*self.set, *part.set, *part.also.get(target, ())]
        return load(part.workload, [*changes, f"target={target}", f"runs={self.rounds(part)}"])

    def rounds(self, part: Part) -> int:
        """How often each target of a part is measured."""
        return part.runs or self.runs


def names() -> list[str]:
    """The shipped suites."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def read(where: str) -> Suite:
    """A suite by its file's path, or by the name of a shipped one. Raises BadWorkload, OSError."""
    path = _FOLDER / f"{where}.toml" if where in names() else Path(where)
    if "/" not in where and not path.suffix:
        raise BadWorkload(f"{where}: no such suite: one of {', '.join(names())}, or a file")
    with path.open("rb") as file:
        data = file.read(_MOST_FILE + 1)
    if len(data) > _MOST_FILE:
        raise BadWorkload(f"{where}: a suite has {_MOST_FILE} bytes at most")
    try:
        return msgspec.convert(tomllib.loads(data.decode()), Suite)
    except UnicodeDecodeError as error:
        raise BadWorkload(f"{where}: not UTF-8 at byte {error.start}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadWorkload(f"{where}: no TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise BadWorkload(f"{where}: {error}") from None


def narrowed(suite: Suite, parts: list[str], targets: list[str], runs: int | None) -> Suite:
    """The suite with some of its parts and targets only (all if a list is empty). Bars that need
    what is left out are left out. Raises BadWorkload.
    """
    known_targets = dict.fromkeys(one for part in suite.parts for one in part.targets)
    for what, wanted, known in (
        ("--part", parts, [part.name for part in suite.parts]),
        ("--targets", targets, [*known_targets]),
    ):
        for name in wanted:
            if name not in known:
                raise BadWorkload(f"{what} {name}: one of {', '.join(known)}")
    kept = []
    for part in suite.parts:
        some = [one for one in part.targets if not targets or one in targets]
        if some and (not parts or part.name in parts):
            also = {name: changes for name, changes in part.also.items() if name in some}
            rounds = runs or part.runs
            kept.append(msgspec.structs.replace(part, targets=some, also=also, runs=rounds))
    if not kept:
        raise BadWorkload("--part and --targets leave nothing to measure")
    have = {(part.name, target) for part in kept for target in part.targets}
    bars = []
    for bar in suite.bars:
        beside = [one for one in bar.beside if (bar.part, one) in have]
        if (bar.part, bar.target) in have and (beside or not bar.beside):
            bars.append(msgspec.structs.replace(bar, beside=beside))
    return msgspec.structs.replace(suite, runs=runs or suite.runs, parts=kept, bars=bars)
