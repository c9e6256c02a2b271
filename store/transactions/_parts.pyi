from collections.abc import Callable
from typing import Any, TypeAlias

from typing_extensions import Buffer

_Parts: TypeAlias = tuple[str, int, int, int, int, int, list[str]]
_Window: TypeAlias = Callable[[int], tuple[int, Buffer] | None]

NO_DECISION: int
NO_HALF: int
OTHER_GROUP: int
ENDED: int

def parts(memory: Buffer, at: int, size: int, names: tuple[bytes, ...]) -> _Parts | None: ...
def screen(
    entries: list[tuple[int, int, int]],
    place: int,
    most: int,
    *,
    newest: dict[int, Any],
    tokens: dict[int, int],
    bounds: tuple[int, int, int],
    log: _Window,
    queue: _Window,
    decision: tuple[bytes, ...],
    half: tuple[bytes, bytes],
    kinds: tuple[int, int],
) -> tuple[list[tuple[int, bool, int, int, str]], int, list[int], list[int]]: ...
