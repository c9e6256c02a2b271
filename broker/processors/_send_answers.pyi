from collections.abc import Callable

from ..loop._connection import Connection
from ..statistics._counters import Latencies

class Answers:
    def __init__(
        self,
        always: dict[str, str],
        refused: Callable[[Connection, int, int, int, int], None],
        latencies: Latencies,
    ) -> None: ...
    def bind(self, store_host: bytes) -> None: ...
