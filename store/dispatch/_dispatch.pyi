from typing_extensions import Buffer

CAUGHT_UP: int
SLICE: int
NEXT_FILE: int
NEED_WINDOW: int
INDEX_FULL: int
UNKNOWN_QUEUE: int
BAD_RECORD: int

class Dispatcher:
    need_slot: int
    need_offset: int
    woken: int
    def __init__(
        self,
        control: Buffer,
        table: Buffer,
        max_queues: int,
        delays: list[int],
        state: dict[str, int],
    ) -> None: ...
    @property
    def state(self) -> dict[str, int]: ...
    def set_log(self, memory: Buffer, base: int) -> None: ...
    def set_window(self, slot: int, memory: Buffer, first: int) -> None: ...
    def drop_window(self, slot: int) -> None: ...
    def set_index(
        self, memory: Buffer | None, name: int, slots: int, entries: int, fresh: bool
    ) -> None: ...
    def undo_index(self) -> int: ...
    def relink_index(self) -> int: ...
    def pass_queue(self) -> None: ...
    def run(self, limit_word: int, slice_ns: int) -> int: ...
