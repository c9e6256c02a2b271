HEAD_ENTRIES: int

def count_topic(
    root: int, topic: bytes, limit: int, first: int, most: int
) -> list[tuple[int, int, int, int, int, int]]: ...
