"""Checksums, Java's hash and the finder of properties: compiled code against the plain rules."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

import crc32c
import pytest

from silomq.shm import _checksum as kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = random.Random(1).randbytes(200_000)
SEEDS = (0, 1, 0xFFFFFFFF, 0x80000000, 0x12345678)


@pytest.fixture(params=kernel.variants())
def variant(request: pytest.FixtureRequest) -> Iterator[int]:
    best = max(kernel.variants())
    kernel.use_variant(request.param)
    yield request.param
    kernel.use_variant(best)


@pytest.mark.usefixtures("variant")
def test_every_length_is_zlibs() -> None:
    for length in range(701):
        data = DATA[length : 2 * length]
        for seed in SEEDS:
            assert kernel.crc32(data, seed) == zlib.crc32(data, seed), (length, seed)


@pytest.mark.usefixtures("variant")
def test_every_length_is_crc32cs() -> None:
    for length in range(701):
        data = DATA[length : 2 * length]
        for seed in SEEDS:
            assert kernel.crc32c(data, seed) == crc32c.crc32c(data, seed), (length, seed)


@pytest.mark.usefixtures("variant")
def test_every_alignment_and_large_sizes() -> None:
    view = memoryview(DATA)
    for start in range(70):
        for length in (15, 16, 31, 32, 255, 256, 257, 511, 512, 1027):
            part = view[start : start + length]
            assert kernel.crc32(part) == zlib.crc32(part)
            assert kernel.crc32c(part) == crc32c.crc32c(bytes(part))
    for length in (4095, 65536, 199_999):
        assert kernel.crc32(view[:length]) == zlib.crc32(view[:length])
        assert kernel.crc32c(view[:length]) == crc32c.crc32c(DATA[:length])


@pytest.mark.usefixtures("variant")
def test_pieces_give_the_whole() -> None:
    rng = random.Random(2)
    for _ in range(50):
        crc = crcc = at = 0
        while at < 5000:
            end = min(5000, at + rng.choice((0, 1, 7, 40, 300, 2000)))
            crc, crcc = kernel.crc32(DATA[at:end], crc), kernel.crc32c(DATA[at:end], crcc)
            at = end
        assert crc == zlib.crc32(DATA[:5000])
        assert crcc == crc32c.crc32c(DATA[:5000])
