from typing_extensions import Buffer

def ascending(
    entries: Buffer, position: int, before: int, first: int
) -> tuple[int, int, int, int]: ...
def confirm(
    entries: Buffer,
    position: int,
    before: int,
    log: Buffer,
    base: int,
    end: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
) -> tuple[int, int]: ...
