"""HdrHistograms in results: checked, added up, and as points of a percentile plot.

The compressed form (V2) in base64, big-endian:

    size  field
    4     cookie of a compressed histogram
    4     length of what follows
    ..    zlib: 4 cookie, 4 length of counts, 4 offset, 4 digits, 8 lowest, 8 highest, 8 ratio,
          and the counts
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from ..load.protocol import DIGITS, HIGHEST_US, LOWEST_US
from .model import Latency

if TYPE_CHECKING:
    from collections.abc import Iterable

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 99.99, 100.0)
_OUTER: Final = struct.Struct(">II")
_INNER: Final = struct.Struct(">IIIIqqd")
_COMPRESSED_COOKIE: Final = 0x1C849304
_WORD: Final = 0xF0  # these bits of a cookie tell the size of a count: it varies in V2
#: Bytes of an uncompressed histogram at most: each of its some 47,000 counts has up to 9 bytes.
_MOST: Final = 1 << 20
#: Points of a percentile plot between 1 - 1/x and 1 - 1/2x.
_STEPS: Final = 5


class NoHistogram(ValueError):
    """A text that is no histogram, or one with other bounds than those of the harness."""


def decode(text: str) -> Any:
    """The HdrHistogram of a text, an empty one for "". Raises NoHistogram."""
    from hdrh.histogram import HdrHistogram

    if not text:
        return HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    _check(text)
    try:
        return HdrHistogram.decode(text)
    # The library raises many kinds of errors for damaged counts.
    except Exception as error:
        raise NoHistogram(f"a damaged histogram: {error!r}") from error


def _check(text: str) -> None:
    """Raises NoHistogram before a few bytes of a file could take gigabytes of memory."""
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


def latency(histogram: Any) -> Latency:
    """A histogram with its figures."""
    found = histogram.get_percentile_to_value_dict([*PERCENTILES])
    return Latency(
        histogram.encode().decode("ascii"),
        histogram.get_total_count(),
        histogram.get_mean_value(),
        {f"{one:g}": float(found.get(one, 0)) for one in PERCENTILES},
    )


def added_up(latencies: Iterable[Latency]) -> Any:
    """One HdrHistogram of all that runs recorded. Raises NoHistogram."""
    whole = decode("")
    for one in latencies:
        whole.add(decode(one.histogram))
    return whole


def percentile_points(histogram: Any) -> list[tuple[float, float]]:
    """Points (1 / (1 - quantile), value in us), up to the last value but one that can be told from
    the greatest, and the greatest at 1 / (1 - quantile) = count.
    """
    count = histogram.get_total_count()
    if not count:
        return []
    places = []
    x = 1.0
    while x < count:
        places.append(x)
        x *= 2 ** (1 / _STEPS)
    # One pass for all: each takes a walk over all counts.
    found = histogram.get_percentile_to_value_dict([_percentile(x) for x in places])
    points = [(x, float(found[_percentile(x)])) for x in places]
    return [*points, (float(count), float(histogram.get_max_value()))]


def _percentile(x: float) -> float:
    return 100.0 * (1.0 - 1.0 / x)


def percentile_table(histogram: Any) -> bytes:
    """The table that plotters of HdrHistogram read (.hgrm), values in us."""
    out = io.BytesIO()
    histogram.output_percentile_distribution(out, 1.0, _STEPS)
    return out.getvalue()


def interval_log(histograms: Iterable[tuple[float, float, str]]) -> bytes:
    """A log for HdrHistogram's tools (.hlog, version 1.2): (start, length in s, encoded)."""
    lines = [
        "#[Histogram log format version 1.2]",
        "#[StartTime: 0.000 (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for start, seconds, text in histograms:
        lines.append(f"{start:.3f},{seconds:.3f},{decode(text).get_max_value() / 1e3:.3f},{text}")
    return ("\n".join(lines) + "\n").encode("ascii")
