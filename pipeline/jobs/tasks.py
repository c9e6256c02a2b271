"""Runs work on a cluster as tasks of a DataFrame: each item of work gives any number of result
rows.

Nothing is shuffled. Spark may run an item on any core, and perhaps twice, so a task must write the
same bytes each time.
"""

from __future__ import annotations

import contextlib
import re
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

#: More tasks would cost more to start than they gain; fewer would leave cores idle at the end.
_TASKS_A_CORE: Final = 8
_LOOK_S: Final = 0.2
#: The last line of a Python traceback: the error's class and its message.
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*): ?(.*)$")


def run(
    spark: SparkSession,
    items: Sequence[Any],
    work: Callable[[Any], Sequence[dict[str, Any]]],
    schema: str,
) -> list[dict[str, Any]]:
    """Calls `work` with each item in tasks of Spark. Returns its rows, which have the schema
    `schema` (in Spark's DDL), in the order of the items. `work` is pickled. An exception that it
    raises ends the job as a Spark error.
    """
    if not items:
        return []
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    arrow = to_arrow_schema(StructType.fromDDL(schema), timezone="UTC")

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = list(work(items[number]))
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=arrow)

    tasks = min(len(items), _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(items), 1, tasks)
    return [row.asDict(recursive=True) for row in numbers.mapInArrow(task, schema).collect()]


@contextlib.contextmanager
def watched(spark: SparkSession, on_progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Calls `on_progress` with the numbers of tasks done and tasks known, while Spark works in the
    `with` block.
    """
    if on_progress is None:
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()
    known: dict[int, tuple[int, int]] = {}

    def look() -> None:
        while not ended.wait(_LOOK_S):
            for stage in tracker.getActiveStageIds():
                found = tracker.getStageInfo(stage)
                if found is not None:
                    known[stage] = found.numCompletedTasks, found.numTasks
            for stage in set(known) - set(tracker.getActiveStageIds()):
                known[stage] = known[stage][1], known[stage][1]
            done = sum(pair[0] for pair in known.values())
            on_progress(done, sum(pair[1] for pair in known.values()))

    watcher = threading.Thread(target=look, name="silomq-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def explained(error: Exception) -> str:
    """The error of a task, in one sentence: if a Spark error carries a Python traceback, the
    traceback's last line.
    """
    text = str(error)
    _, traceback, rest = text.rpartition("Traceback (most recent call last):")
    lines = rest.splitlines() if traceback else []
    for line in lines:
        found = _RAISED.match(line)
        if found:
            name = found[1].rpartition(".")[2]
            return found[2] if found[1].startswith("silomq.") else f"{name}: {found[2]}"
    return text.strip().partition("\n")[0] or type(error).__name__
