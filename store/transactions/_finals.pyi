from typing_extensions import Buffer

def finals(
    memory: Buffer, position: int, end: int, given_up: bytes
) -> tuple[list[tuple[int, int]], int]: ...
