from array import array
from collections.abc import Iterable

from typing_extensions import Buffer

def count(records: Buffer) -> int: ...
def sorted_codes(codes: Iterable[int] | None) -> array[int] | None: ...
def take(
    entries: Buffer,
    log: Buffer,
    base: int,
    end: int,
    codes: array[int] | None,
    *,
    most: int,
    max_bytes: int,
) -> tuple[bytes, int] | None: ...
