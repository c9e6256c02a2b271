from typing import Final

from typing_extensions import Buffer

from ...shm._words import Word
from ._dispatch import Dispatcher

PREPARE: Final[int]
NEWS: Final[int]

class Follower:
    longest_ns: int
    busy: bool
    def __init__(
        self,
        dispatcher: Dispatcher,
        limit_at: int,
        limit: Word,
        news: Word,
        others: list[Word],
        times: Buffer,
        spin_ns: int,
    ) -> None: ...
    def run(
        self, seen: list[int], *, prepared: bool, rests: bool, slice_ns: int, sleep_ns: int
    ) -> int: ...
