from typing_extensions import Buffer

END_OF_FILE: int
NOTHING: int
BAD_LENGTHS: int
BAD_CRC: int
BAD_OFFSET: int
FULL: int
TORN: int
UNREADABLE: int

def scan(
    memory: Buffer,
    position: int,
    base: int,
    check_crc: bool,
    refuse_torn: bool = False,
    refuse_unreadable: bool = False,
) -> tuple[int, int, int, int]: ...
def find_record(
    memory: Buffer, position: int, base: int, not_before: int, refuse_unreadable: bool = False
) -> tuple[int, int]: ...
def used_end(memory: Buffer, position: int) -> int: ...
def used_begin(memory: Buffer, position: int) -> int: ...
def bounds(
    memory: Buffer, base: int, position: int = 0, stop: int = ...
) -> tuple[int, int, int, int, int]: ...
