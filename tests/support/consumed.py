"""What a topic holds, as soon as it holds as much as was sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from silomq import Consumer

if TYPE_CHECKING:
    from support.harness import StoreProcess

    from silomq import MessageView


def read(store: StoreProcess, topic: str, count: int) -> list[MessageView]:
    """That many messages of a topic, and no more."""
    found: list[MessageView] = []
    with Consumer(store.path, topic) as consumer:
        deadline = time.monotonic() + 10
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.poll(1000, 0.5)
        found += consumer.poll(1000)
    assert len(found) == count
    return found
