from collections.abc import Callable

from ._counts import Counts
from ._fates import Fates
from .bodies import Ready
from .client import Sender

class Times:
    def __init__(
        self, first: float, period: float, anew: int, spin_ns: int, least_ns: int
    ) -> None: ...

class Loop:
    def __init__(
        self,
        ready: list[Ready],
        most: int,
        end: int,
        look: Callable[[int], int],
        failed: Callable[[Exception | str], None],
        publish: Counts,
        delay: Counts,
    ) -> None: ...
    def one_by_one(self, call: Callable[[str, bytes, str, str], None]) -> None: ...
    def at_their_times(
        self,
        call: Callable[[str, bytes, str, str], None],
        times: Times,
    ) -> None: ...
    def full_window(self, sender: Sender, fates: Fates, window: int) -> None: ...
    def window_at_their_times(
        self,
        sender: Sender,
        fates: Fates,
        window: int,
        times: Times,
    ) -> None: ...
    def await_answers(self, sender: Sender, fates: Fates, most_ns: int) -> None: ...
    def batches(self, call: Callable[[str, list[bytes], str, str], None], batch: int) -> None: ...
