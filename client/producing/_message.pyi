from collections.abc import Iterable, Mapping

class Message:
    body: bytes
    tags: str | None
    keys: str | Iterable[str] | None
    properties: Mapping[str, str] | None
    flag: int
    born_timestamp: int
    def __init__(
        self,
        body: bytes | bytearray | memoryview | str,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        born_timestamp: int | None = None,
    ) -> None: ...

class Route:
    topic: str
    slots: tuple[int, ...]
    def __init__(self, topic: str, slots: tuple[int, ...]) -> None: ...
