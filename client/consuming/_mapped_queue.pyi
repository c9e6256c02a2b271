from collections.abc import Sequence
from typing import Final

from typing_extensions import Buffer

from ...shm._words import Word
from ._message_view import Memory, MessageView

ALL: Final[int]
FULL: Final[int]
ELSEWHERE: Final[int]
BAD_ENTRY: Final[int]

def take(
    log: Memory | None,
    entries: Buffer,
    first: int,
    limit: int,
    codes: Buffer | None,
    max_bytes: int,
) -> tuple[list[MessageView], int, int]: ...

class MappedQueue:
    next: int
    memory: Memory | None
    start: Word
    end: Word
    def __init__(self, start: Word, end: Word, since: Word, wrote: Word, at: int) -> None: ...
    def map_entries(self, entries: Buffer | None, first: int) -> None: ...
    def take_mapped(
        self, limit: int, codes: Buffer | None, max_bytes: int
    ) -> list[MessageView] | None: ...

def unread(queues: Sequence[MappedQueue]) -> list[int]: ...
