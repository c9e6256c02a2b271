"""HdrHistograms in results: checked, added up, and as points of a percentile plot."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from ..load.latencies import NoHistogram, counts_in, taken
from ..load.protocol import DIGITS, HIGHEST_US, LOWEST_US
from .model import Latency

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..load._counts import Counts

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 99.99, 100.0)
#: Points of a percentile plot between 1 - 1/x and 1 - 1/2x.
_STEPS: Final = 5


def decode(text: str) -> Any:
    """The HdrHistogram of a text, an empty one for "". Raises NoHistogram."""
    from hdrh.histogram import HdrHistogram

    if not text:
        return HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    counts_in(text)  # raises NoHistogram
    try:
        return HdrHistogram.decode(text)
    # The library raises many kinds of errors for damaged counts.
    except Exception as error:
        raise NoHistogram(f"a damaged histogram: {error!r}") from error


def latency(counts: Counts) -> Latency:
    """The histogram of these counts with its figures. The counts are 0 then."""
    total, mean = counts.total, counts.mean()
    shown = [float(one) for one in counts.percentiles(PERCENTILES)]
    names = (f"{one:g}" for one in PERCENTILES)
    return Latency(taken(counts), total, mean, dict(zip(names, shown, strict=True)))


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
