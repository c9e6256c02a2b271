from typing_extensions import Buffer

def finals(
    memory: Buffer, position: int, end: int
) -> tuple[list[tuple[int, int]], int]: ...
