"""Histograms of latencies: filled from arrays, encoded, decoded, added up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .protocol import DIGITS, HIGHEST_US, LOWEST_US

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: HdrHistogram of three digits has 2,048 steps to a bucket: they are taken by their upper bits.
_STEP_BITS = 11
#: After so many steps others get the core: some 50 us.
_TURN = 32


def histogram() -> Any:
    """An empty HdrHistogram with the bounds of all workers."""
    from hdrh.histogram import HdrHistogram

    return HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)


def warm_up() -> None:
    """Imports what `record` needs."""
    import numpy as np  # noqa: F401


def record(into: Any, values_ns: Buffer) -> None:
    """Adds latencies, 64-bit integers of nanoseconds, all at once. Less than 1 us counts as 1 us,
    more than the histogram holds as the most it holds.
    """
    import numpy as np

    # A buffer of its own: an array that exports one could not grow.
    values = np.clip(np.frombuffer(bytes(values_ns), np.int64) // 1000, LOWEST_US, HIGHEST_US)
    # Values whose upper bits are equal are one step of the histogram.
    shifts = np.maximum(np.frexp(values.astype(np.float64))[1] - _STEP_BITS, 0)
    steps = (shifts << _STEP_BITS) + (values >> shifts)
    counts = np.bincount(steps)
    for number, step in enumerate(np.flatnonzero(counts).tolist()):
        if number % _TURN == 0:
            os.sched_yield()
        shift = step >> _STEP_BITS
        upper = step & ((1 << _STEP_BITS) - 1)
        into.record_value(upper << shift, int(counts[step]))


def encode(found: Any) -> str:
    """The compressed base64 form (V2); "" for an empty histogram."""
    return found.encode().decode("ascii") if found.get_total_count() else ""


def add(into: Any, encoded: str) -> None:
    """Adds an encoded histogram. Raises RuntimeError if the text is none."""
    if encoded:
        try:
            into.decode_and_add(encoded)
        except Exception as error:
            raise RuntimeError(f"a worker sent no histogram: {error!r}") from error
