"""Images of a recorded store's disk, as a power cut may leave them."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from power.simulator import Disk, events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from power.recorded_store import Recorded


@contextmanager
def an_image(disk: Disk, seed: int, folder: Path) -> Iterator[Path]:
    path = folder / "image"
    path.mkdir()
    try:
        disk.image(random.Random(seed), path)
        yield path
    finally:
        shutil.rmtree(path)


def cuts(
    recorded: Recorded, count: int, seed: int, *, drop: str = ""
) -> Iterator[tuple[int, Disk]]:
    """`count` times the disk after a number of events, chosen at random, ascending."""
    total = sum(1 for _ in events(recorded.recording))
    rng = random.Random(seed)
    wanted = Counter(rng.randrange(total) for _ in range(count))
    assert len(wanted) > count / 2
    disk = Disk(recorded.store.path, drop=drop)
    for number, (at, event) in enumerate(events(recorded.recording)):
        disk.apply(at, event)
        for _ in range(wanted[number]):
            yield number, disk
