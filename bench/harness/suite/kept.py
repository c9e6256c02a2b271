"""The folder of a suite: one result for each part and target, named PART.TARGET.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..results.file import load, readable, write_whole
from ..results.report import flat
from ..workload.load import BadWorkload, plain

if TYPE_CHECKING:
    from pathlib import Path

    from ..results.model import Result
    from ..workload.load import Plan

_NOT_COMPARED: Final = ("runs", "description")


def place(folder: Path, part: str, target: str) -> Path:
    """The file of a part and target."""
    return folder / f"{part}.{target}.json"


def kept(folder: Path, part: str, target: str) -> Result | None:
    """What is there already. Raises BadResult."""
    path = place(folder, part, target)
    return load(path) if path.exists() else None


def check_same(path: Path, found: Result, plan: Plan) -> None:
    """Raises BadWorkload if a kept result is of another workload."""
    before, now = _compared(found.workload), _compared(plain(plan.workload))
    if before != now:
        names = sorted({name for name, _ in before ^ now})
        raise BadWorkload(
            f"{path}: was measured with another workload ({', '.join(names)}): "
            "move it away, or give another --results"
        )


def _compared(workload: dict[str, Any]) -> set[tuple[str, str]]:
    """All keys and values but those that change nothing in a run."""
    return {(name, value) for name, value in flat(workload) if name not in _NOT_COMPARED}


def keep(path: Path, result: Result) -> None:
    """Writes a result as `silo bench run` does. Raises OSError."""
    write_whole(path, readable(result))
