"""Histograms of latencies as text: HdrHistogram's compressed form (V2) in base64.

Its numbers are big-endian:

    size  field
    4     cookie of a compressed histogram
    4     length of what follows
    ..    zlib: 4 cookie, 4 length of counts, 4 offset, 4 digits, 8 lowest, 8 highest, 8 ratio,
          and the counts (`_counts.pyx`)

Workers write it once a second, in Java with HdrHistogram's own library.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import Final

from ._counts import Counts
from .protocol import DIGITS, HIGHEST_US, LOWEST_US

_OUTER: Final = struct.Struct(">II")
_INNER: Final = struct.Struct(">IIIIqqd")
_COMPRESSED_COOKIE: Final = 0x1C849304
_COOKIE: Final = 0x1C849303
_WORD: Final = 0xF0  # these bits of a cookie tell the size of a count: it varies in V2
_VARIES: Final = 0x10
#: Bytes of an uncompressed histogram at most: each of its 23,552 counts has up to 9 bytes.
_MOST: Final = 1 << 20
#: The fastest: a histogram is written each second, while others work.
_LEVEL: Final = 1


class NoHistogram(ValueError):
    """A text that is no histogram, or one with other bounds than those of the harness."""


def taken(found: Counts) -> str:
    """The text of a histogram, which is empty then; "" if it was empty before."""
    counts = found.take()
    if not counts:
        return ""
    head = _INNER.pack(_COOKIE | _VARIES, len(counts), 0, DIGITS, LOWEST_US, HIGHEST_US, 1.0)
    packed = zlib.compress(head + counts, _LEVEL)
    outer = _OUTER.pack(_COMPRESSED_COOKIE | _VARIES, len(packed))
    return base64.b64encode(outer + packed).decode("ascii")


def add(into: Counts, text: str) -> None:
    """Adds the histogram of a text, which may be "". Raises NoHistogram; then a part of it may have
    been added.
    """
    if text:
        try:
            into.add_encoded(counts_in(text))
        except NoHistogram:
            raise
        except ValueError as error:
            raise NoHistogram(f"a damaged histogram: {error}") from None


def counts_in(text: str) -> bytes:
    """The encoded counts in a text. Raises NoHistogram before a few bytes could take gigabytes of
    memory.
    """
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = _OUTER.unpack_from(packed)
        plain = zlib.decompressobj().decompress(packed[_OUTER.size :], _MOST + 1)
        _, counts, _, digits, lowest, highest, _ = _INNER.unpack_from(plain)
    except (binascii.Error, ValueError, struct.error, zlib.error) as error:
        raise NoHistogram(f"no histogram of HdrHistogram (V2): {error}") from None
    if (
        cookie & ~_WORD != _COMPRESSED_COOKIE
        or length != len(packed) - _OUTER.size
        or len(plain) > _MOST
    ):
        raise NoHistogram(f"no histogram of HdrHistogram (V2): cookie {cookie:#x}, {length} bytes")
    if _INNER.size + counts != len(plain):
        raise NoHistogram(f"a damaged histogram: {len(plain) - _INNER.size} bytes, not {counts}")
    if (digits, lowest, highest) != (DIGITS, LOWEST_US, HIGHEST_US):
        bounds = f"{lowest} to {highest} us with {digits} digits"
        raise NoHistogram(f"a histogram of {bounds}, not {LOWEST_US} to {HIGHEST_US} with {DIGITS}")
    return plain[_INNER.size :]
