"""What tests of the sink put in, and what is in a store afterwards."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from spark.publishing import TOPIC, bodies_in

if TYPE_CHECKING:
    from pathlib import Path

    from support.harness import StoreProcess


def dispatched(store: StoreProcess, topic: str = TOPIC) -> list[bytes]:
    """All messages of a topic, when all that was appended is dispatched."""
    store.await_dispatch()
    return bodies_in(store.path, topic)


def staged(store: StoreProcess) -> list[Path]:
    """Rows that wait to be published, or were left behind."""
    return list((store.path / "silomq" / "sinks").rglob("*.arrow"))


def rows_of(folder: Path, files: int, each: int) -> list[bytes]:
    """JSON files for a stream, the oldest first: the bodies in them."""
    bodies = []
    folder.mkdir()
    for number in range(files):
        lines = [f"file {number} row {row}" for row in range(each)]
        text = "".join(
            json.dumps({"body": line, "keys": [line.split()[3]]}) + "\n" for line in lines
        )
        path = folder / f"{number:04d}.json"
        path.write_text(text)
        os.utime(path, (1_700_000_000 + number,) * 2)
        bodies += [line.encode() for line in lines]
    return bodies
