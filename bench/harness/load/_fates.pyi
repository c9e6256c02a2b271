from collections.abc import Callable
from typing import Any

from ._counts import Counts
from .numbers import Numbers

class Fates:
    def __init__(
        self,
        publish: Counts,
        durable: Counts,
        failed: Callable[[Exception | str], None],
        numbers: Numbers | None = None,
    ) -> None: ...
    @property
    def numbers(self) -> Numbers | None: ...
    @property
    def under_way(self) -> int: ...
    def stored(self, due: int) -> None: ...
    def refused(self, due: int, why: str) -> None: ...
    def delivery(self, due: int) -> Callable[[Any, Any], None]: ...
