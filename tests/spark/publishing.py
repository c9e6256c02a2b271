"""Helps the tests of the sink: staged batches, publishers to be killed, and what a topic holds.

`python publishing.py STORE SINKS SINK BATCH FILE...` publishes, as a driver's commit does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from silomq import Consumer, IllegalMessage
from silomq.pipeline.sink.ledger import make_staging, staging_of
from silomq.pipeline.sink.publish import Target, publish
from silomq.pipeline.sink.rows import SCHEMA, STAGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from support.harness import StoreProcess

    from silomq import ColumnName

TOPIC = "published"


def stage(sinks: Path, sink: str, batch: int, bodies: Sequence[bytes], **columns: object) -> str:
    """Rows of one task as `write` puts them down; the file's name."""
    make_staging(sinks, sink)
    name = f"{batch}.0.0.{len(bodies)}.arrow"
    count = len(bodies)
    values: dict[str, list[Any]] = {key: [None] * count for key in STAGED}
    values |= {"topic": [TOPIC] * count, "body": list(bodies)}
    values |= {key: [value] * count for key, value in columns.items()}
    with pa.ipc.new_file(str(staging_of(sinks, sink) / name), SCHEMA) as writer:
        table = pa.Table.from_pydict(values, schema=SCHEMA)
        for part in table.to_batches(max_chunksize=1000):
            writer.write_batch(part)
    return name


def publisher(
    store: StoreProcess, sinks: Path, sink: str, batch: int, *files: str
) -> subprocess.Popen[bytes]:
    """A process that publishes one batch."""
    command = [sys.executable, "-P", __file__, str(store.path), str(sinks), sink, str(batch)]
    return subprocess.Popen([*command, *files])


def bodies_in(store: Path, topic: str = TOPIC) -> list[bytes]:
    """All messages of a topic that are dispatched."""
    return column_in(store, "body", topic)


def column_in(store: Path, column: ColumnName, topic: str = TOPIC) -> list[Any]:
    """A column of all messages of a topic that are dispatched."""
    found: list[Any] = []
    try:
        with Consumer(store, topic) as consumer:
            while part := consumer.poll_arrow(1 << 16, columns=(column,)).column(0):
                found += part.to_pylist()
    except IllegalMessage:  # no topic: nothing
        return []
    return found


def exactly(found: Iterable[bytes], wanted: Iterable[bytes]) -> None:
    """Asserts that each of `wanted` is there once, and nothing else."""
    have, want = sorted(found), sorted(wanted)
    doubled = len(have) - len(set(have))
    assert (len(have), doubled) == (len(want), 0)
    assert have == want


def main() -> None:
    store, sinks, sink, batch, *files = sys.argv[1:]
    target = Target(store, Path(sinks), sink)
    print(publish(target, int(batch), files, {TOPIC: -1}))


if __name__ == "__main__":
    main()
