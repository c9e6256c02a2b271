from typing_extensions import Buffer

END_OF_FILE: int
NOTHING: int
BAD_LENGTHS: int
BAD_CRC: int
BAD_OFFSET: int
FULL: int

def scan(
    memory: Buffer, position: int, base: int, check_crc: bool
) -> tuple[int, int, int, int]: ...
