"""Java's string hash over whole columns: `String.hashCode` of every text of an Arrow array at once.

The hash of a text with n letters is the sum of letter[i] * 31**(n - 1 - i), modulo 2**32. Modulo
2**32, 31 has an inverse. So the letter at position p of the whole column is multiplied by 31**-p,
and one running sum is taken over the column. The difference of the sums at a text's end and start,
times 31**(end - 1), is the text's hash.

Texts that are not ASCII are hashed one by one, because Java counts UTF-16 units.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...store.record.javahash import java_string_hash

_WRAP: Final = 1 << 32
_INVERSE: Final = pow(31, -1, _WRAP)


def _powers(base: int, count: int) -> Any:
    """base**0 to base**(count - 1), modulo 2**32."""
    found: Any = np.full(count, base, dtype=np.uint32)
    if count:
        found[0] = 1
    return np.cumprod(found, dtype=np.uint32)


def java_hashes(texts: Any, seeds: Any = None) -> Any:
    """The hashes (uint32) of an Arrow array of strings without nulls. `seeds` (uint32, one for each
    text) are the hashes of prefixes that the texts are appended to.

    Raises TypeError for another array, ValueError for nulls.
    """
    if not isinstance(texts, pa.StringArray):
        raise TypeError(f"an array of strings is hashed, not {texts.type}")
    if texts.null_count:
        raise ValueError(f"{texts.null_count} of {len(texts)} texts are null: drop them first")
    count = len(texts)
    if count == 0:
        return np.zeros(0, dtype=np.uint32)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32, count=count + 1, offset=4 * texts.offset)
    first, last = int(ends[0]), int(ends[-1])
    letters: Any = np.zeros(0, dtype=np.uint8)
    if last > first:
        letters = np.frombuffer(data, dtype=np.uint8, count=last - first, offset=first)
    start, stop = ends[:-1] - first, ends[1:] - first
    powers = _powers(31, last - first + 1)
    sums: Any = np.zeros(last - first + 1, dtype=np.uint32)
    np.cumsum(letters * _powers(_INVERSE, last - first), dtype=np.uint32, out=sums[1:])
    lengths = stop - start
    # An empty text at position 0 has no power, but its sum is 0 anyway.
    found = (sums[stop] - sums[start]) * powers[np.maximum(stop - 1, 0)]
    beyond: Any = np.zeros(last - first + 1, dtype=np.int64)
    np.cumsum(letters >= 0x80, out=beyond[1:])
    odd = np.flatnonzero(beyond[stop] != beyond[start])
    if seeds is not None:
        found = found + np.asarray(seeds, dtype=np.uint32) * powers[lengths]
    for i in odd.tolist():
        text = texts[i].as_py()
        units = len(text.encode("utf-16-be")) // 2
        alone = java_string_hash(text)
        if seeds is not None:
            alone += int(seeds[i]) * pow(31, units, _WRAP)
        found[i] = alone % _WRAP
    return found.astype(np.uint32)


def index_hashes(prefixes: Any, keys: Any) -> Any:
    """The index's hashes (int32) of `topic#key`; `prefixes` are the hashes of `topic#`, one for
    each key.
    """
    signed = java_hashes(keys, prefixes).view(np.int32).astype(np.int64)
    found = np.abs(signed)
    # Math.abs(-2**31) stays negative in Java; RocketMQ stores 0.
    return np.where(found == 1 << 31, 0, found).astype(np.int32)
