from array import array
from collections.abc import Callable

from .bodies import Ready

class Loop:
    def __init__(
        self,
        ready: list[Ready],
        most: int,
        end: int,
        look: Callable[[int], int],
        failed: Callable[[Exception], None],
        publish: array[int],
        delay: array[int],
    ) -> None: ...
    def one_by_one(self, call: Callable[[str, bytes, str, str], None]) -> None: ...
    def at_their_times(
        self,
        call: Callable[[str, bytes, str, str], None],
        first: float,
        period: float,
        anew: int,
        spin_ns: int,
        least_ns: int,
    ) -> None: ...
    def batches(self, call: Callable[[str, list[bytes], str, str], None], batch: int) -> None: ...
