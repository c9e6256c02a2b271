"""The parts of the data source without Spark, as its planner and its tasks put them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silomq.pipeline.source import snapshot
from silomq.pipeline.source.columns import COLUMNS, kernel_columns
from silomq.pipeline.source.options import Options, parse
from silomq.pipeline.source.part_reader import Damage, Part, Rules, Work, read
from silomq.pipeline.source.plan import ANYTHING, Pushed, plan

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def options(path: Path, **given: Any) -> Options:
    return parse({"path": str(path), **{k: str(v) for k, v in given.items()}}, streaming=False)


def tasks(path: Path, *, pushed: Pushed = ANYTHING, **given: Any) -> list[tuple[Part, ...]]:
    """What a query's tasks would read of a store as it is now."""
    return plan(snapshot.take(path), options(path, **given), pushed)


def rows(
    planned: Iterable[tuple[Part, ...]],
    chosen: Options,
    columns: Iterable[str] = COLUMNS,
    work: Work | None = None,
) -> tuple[list[dict[str, Any]], list[Damage]]:
    """The rows that tasks read, in kernel columns, and the damage that they passed over."""
    rules = Rules(
        kernel_columns(columns),
        chosen.verify_crc,
        chosen.fail_on_data_loss,
        chosen.on_corrupt,
        chosen.raw_bodies,
    )
    found, damage = [], []
    for parts in planned:
        for part in parts:
            for batch in read(part, rules, work):
                if isinstance(batch, Damage):
                    damage.append(batch)
                else:
                    batch.validate(full=True)
                    found += batch.to_pylist()
    return found, damage


def places(path: Path, *, pushed: Pushed = ANYTHING, **given: Any) -> list[int]:
    """Log offsets of the messages that a query gives, ascending."""
    planned = tasks(path, pushed=pushed, **given)
    found, _ = rows(planned, options(path, **given), ["physicalOffset"])
    return sorted(row["physical_offset"] for row in found)
