from typing import Final

from typing_extensions import Buffer

from ._block import Block

FULL: Final[int]
STOP: Final[int]
END_OF_FILE: Final[int]
NOTHING: Final[int]
BAD_LENGTHS: Final[int]
BAD_CRC: Final[int]
BAD_OFFSET: Final[int]
DAMAGED: Final[int]
ALL_TAKEN: Final[int]
TAKEN_FULL: Final[int]
ELSEWHERE: Final[int]
BAD_ENTRY: Final[int]
VIEW_END: Final[int]

class Columns:
    bad_bodies: list[tuple[int, str]]
    sources: list[Buffer]
    def __init__(self, wanted: int, raw: bool = False, views: bool = False) -> None: ...
    @property
    def has_views(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def size(self) -> int: ...
    def take(
        self,
        log: Buffer | None,
        base: int,
        entries: Buffer,
        first: int,
        limit: int,
        codes: Buffer | None,
        max_bytes: int,
        check: bool,
    ) -> tuple[int, int, int]: ...
    def scan(
        self,
        memory: Buffer,
        position: int,
        base: int,
        stop: int,
        limit: int,
        max_bytes: int,
        check: bool,
    ) -> tuple[int, int]: ...
    def parts(self) -> dict[int, tuple[int, Block, Block, Block]]: ...
