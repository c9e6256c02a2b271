"""Delayed messages of a real store: sending many, and collecting what comes of them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from silomq import Consumer, StoreError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from silomq.client.consuming.message_view import MessageView


@dataclass
class Arrivals:
    """What came: by body, each time (epoch ms) at which the store appended a delivery."""

    times: dict[bytes, list[int]] = field(default_factory=dict)
    views: list[MessageView] = field(default_factory=list)

    def check(self, due: dict[bytes, int], *, print_as: str = "") -> list[int]:
        """Each message came once and not before it was due: how late they were, ms, ascending."""
        twice = {body: times for body, times in self.times.items() if len(times) > 1}
        assert not twice, f"{len(twice)} came more than once: {list(twice.items())[:3]}"
        missing = due.keys() - self.times.keys()
        assert not missing, f"{len(missing)} of {len(due)} never came: {sorted(missing)[:3]}"
        others = sorted(self.times.keys() - due.keys())
        assert not others, f"{len(others)} came that nobody sent: {others[:3]}"
        late = sorted(self.times[body][0] - at for body, at in due.items())
        assert late[0] >= 0, f"{sum(ms < 0 for ms in late)} came early, one by {-late[0]} ms"
        if print_as:
            p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
            print(f"{print_as}: {len(late)} messages, late p50 {p50} p99 {p99} max {late[-1]} ms")
        return late


def collect(
    store: Path,
    topic: str,
    expected: Collection[bytes],
    *,
    timeout: float = 30.0,
    grace: float = 0.5,
) -> Arrivals:
    """Reads `topic` until all `expected` bodies have come, and `grace` seconds more for doubles."""
    found = Arrivals()
    deadline = time.monotonic() + timeout
    left = set(expected)
    with Consumer(store, topic) as consumer:
        while time.monotonic() < deadline:
            with contextlib.suppress(StoreError):
                for view in consumer.poll(1000, 0.2):
                    found.views.append(view)
                    found.times.setdefault(view.body, []).append(view.store_timestamp)
                    left.discard(view.body)
            if not left:
                deadline = min(deadline, time.monotonic() + grace)
                left = {b""}
    return found
