from typing_extensions import Buffer

LIMIT: int
ODD: int
UNKNOWN_QUEUE: int
NEED_WINDOW: int
NEED_INDEX: int
NEED_KNOWN: int

class LogCheck:
    queue_count: int
    quiet: bool
    records: int
    pending: int
    before_queues: int
    unnamed: int
    oldest_ms: int
    newest_ms: int
    last: int
    first_time: int
    last_time: int
    times_seen: int
    need_queue: int
    need_offset: int
    need_topic: bytes
    def __init__(self, delays: list[int]) -> None: ...
    def begin(
        self,
        redispatched: int,
        first_dispatched: int,
        first_indexed: int,
        times: tuple[int, int, int],
    ) -> None: ...
    def add_queue(self, topic: bytes, queue_id: int, below: int) -> int: ...
    def set_window(self, number: int, memory: Buffer | None, first: int, count: int) -> int: ...
    def take_matched(self, number: int) -> int: ...
    def set_index(
        self,
        which: int,
        memory: Buffer,
        slots: int,
        at: int,
        count: int,
        begin_ms: int,
    ) -> None: ...
    def shift_index(self) -> None: ...
    def take_indexed(self, which: int) -> int: ...
    def set_known(self, known: Buffer) -> None: ...
    def run(self, memory: Buffer, position: int, limit: int, base: int) -> tuple[int, int]: ...
