from array import array
from collections.abc import Callable

from ..groups.holds import Holds
from ..link.reading import Place
from ..statistics._counters import Meter
from ._fast_path import FastRequest

class Known:
    def __init__(
        self,
        group: str,
        topic: str,
        place: Place,
        codes: array[int] | None,
        *,
        subscription: str | None,
        kind: str,
        version: int,
        until: float,
        meter: Meter,
        reached: int,
    ) -> None: ...

class FastPull(FastRequest):
    def __init__(
        self,
        note: Callable[[str, str, int, int], bool],
        holds: Holds,
        longest_s: float,
        most_unsent: int,
    ) -> None: ...
    def learn(self, queue: Known, queue_id: int) -> None: ...
    def forget(self) -> None: ...
    def reached(self, group: str, topic: str, queue_id: int) -> int: ...
    def reads(self) -> tuple[int, int]: ...
