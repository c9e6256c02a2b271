"""Texts of histograms: the library reads ours, and we read the library's."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.load.latencies import NoHistogram, add, taken
from silomq.bench.harness.load.protocol import DIGITS, HIGHEST_US, LOWEST_US

US = st.one_of(st.integers(1, 10_000), st.integers(1, HIGHEST_US))


@given(st.lists(US, min_size=1, max_size=100))
@settings(max_examples=50, deadline=None)
def test_texts_are_those_of_the_library(us: list[int]) -> None:
    ours, theirs = Counts(), HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    for value in us:
        ours.record(1000 * value)
        theirs.record_value(value)
    text = taken(ours)
    assert ours.total == 0
    assert HdrHistogram.decode(text).encode() == theirs.encode()
    summed = Counts()
    add(summed, text)
    add(summed, theirs.encode().decode())
    assert summed.total == 2 * len(us)
    theirs.decode_and_add(text)
    assert HdrHistogram.decode(taken(summed)).encode() == theirs.encode()


def test_nothing_and_no_histogram() -> None:
    into = Counts()
    assert taken(into) == ""
    add(into, "")
    assert into.total == 0
    with pytest.raises(NoHistogram, match="no histogram of HdrHistogram"):
        add(into, "aGVsbG8=")


def test_damaged_counts() -> None:
    """The frame is whole, its counts are not."""
    head = struct.pack(">IIIIqqd", 0x1C849313, 1, 0, DIGITS, LOWEST_US, HIGHEST_US, 1.0)
    packed = zlib.compress(head + b"\xff")
    text = base64.b64encode(struct.pack(">II", 0x1C849314, len(packed)) + packed).decode()
    with pytest.raises(NoHistogram, match="a damaged histogram: the counts end"):
        add(Counts(), text)
