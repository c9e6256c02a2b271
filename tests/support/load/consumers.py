"""Members of groups that consume as long as a load lasts, each in a thread of its own."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Self

from silomq import GroupConsumer

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

Place = tuple[str, int, int]


class Consumers:
    """`members` members of each group, which read the topic from its begin until `finish`."""

    def __init__(self, store: Path, topic: str, groups: tuple[str, ...], members: int = 1) -> None:
        self.found: dict[str, list[Place]] = {group: [] for group in groups}
        self.errors: list[str] = []
        self._over = threading.Event()
        self._wanted = 0
        self._threads = [
            threading.Thread(target=self._consume, args=(store, topic, group))
            for group in groups
            for _ in range(members)
        ]

    def _consume(self, store: Path, topic: str, group: str) -> None:
        found = self.found[group]
        try:
            with GroupConsumer(store, group, topic, start="earliest") as member:
                while not (self._over.is_set() and len(found) >= self._wanted):
                    found += [(m.topic, m.queue_id, m.queue_offset) for m in member.poll(500, 0.1)]
        except Exception:  # noqa: BLE001 # the test reports it
            self.errors.append(traceback.format_exc())

    def finish(self, wanted: int, patience_s: float = 60.0) -> None:
        """Lets each group read `wanted` messages, and asserts that it got each of them once."""
        self._wanted = wanted
        self._over.set()
        for thread in self._threads:
            thread.join(patience_s)
        assert not self.errors, "\n".join(self.errors)
        for group, found in self.found.items():
            assert len(set(found)) == len(found), f"{group} got messages twice"
            got = Counter(queue for _, queue, _ in found)
            behind = {q: max(o for _, i, o in found if i == q) + 1 - n for q, n in got.items()}
            assert len(found) == wanted, (
                f"{group} got {len(found)} of {wanted}: {dict(got)} by queue, so many "
                f"were passed over: {behind}"
            )

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wanted = 0
        self._over.set()
        for thread in self._threads:
            thread.join(60)
