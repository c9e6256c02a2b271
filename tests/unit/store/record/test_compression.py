"""Compressed bodies: what is decompressed, what is refused, and how much comes of it."""

from __future__ import annotations

import contextlib
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.record.compression import LEGACY, LZ4, ZLIB, ZSTD, Undecodable, decompress

if TYPE_CHECKING:
    from collections.abc import Callable

COMPRESSORS: dict[int, Callable[[bytes], bytes]] = {
    LEGACY: zlib.compress,
    LZ4: lz4.frame.compress,
    ZSTD: zstandard.ZstdCompressor(write_content_size=False).compress,
    ZLIB: zlib.compress,
}
KINDS = pytest.mark.parametrize("kind", COMPRESSORS)


def flag(kind: int) -> int:
    return 1 | kind << 8


@given(st.sampled_from(list(COMPRESSORS)), st.binary(max_size=5000))
def test_what_was_compressed_comes_back(kind: int, body: bytes) -> None:
    assert decompress(COMPRESSORS[kind](body), flag(kind)) == body


@given(st.binary(max_size=100), st.integers(0, 0x7FF).map(lambda bits: bits & ~1))
def test_what_is_not_compressed_stays(body: bytes, sys_flag: int) -> None:
    assert decompress(body, sys_flag) is body
    assert decompress(b"", sys_flag | 1) == b""


@KINDS
@pytest.mark.parametrize("size", [1, 511, 512, 513, 1 << 20])
def test_sizes_at_the_edges(kind: int, size: int) -> None:
    body = bytes(size)
    packed = COMPRESSORS[kind](body)
    assert decompress(packed, flag(kind), size) == body
    with pytest.raises(Undecodable, match=f"more than {size - 1} bytes"):
        decompress(packed, flag(kind), size - 1)


@KINDS
def test_every_cut_is_refused(kind: int) -> None:
    packed = COMPRESSORS[kind](b"some words, some other words, some more words" * 20)
    for end in range(1, len(packed)):
        with pytest.raises(Undecodable):
            decompress(packed[:end], flag(kind))


@given(st.sampled_from(list(COMPRESSORS)), st.binary(min_size=1, max_size=200))
def test_garbage_is_refused_or_read(kind: int, body: bytes) -> None:
    with contextlib.suppress(Undecodable):
        assert isinstance(decompress(body, flag(kind)), bytes)


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_unknown_types_are_refused(kind: int) -> None:
    with pytest.raises(Undecodable, match=f"compression {kind}, which is unknown"):
        decompress(b"x", flag(kind))


@pytest.mark.parametrize("kind", [LZ4, ZSTD])
def test_what_follows_the_frame_is_refused(kind: int) -> None:
    packed = COMPRESSORS[kind](b"x" * 1000)
    for more in (b"?", packed, bytes(600)):
        with pytest.raises(Undecodable, match="something follows"):
            decompress(packed + more, flag(kind))
    assert decompress(zlib.compress(b"x") + b"?", flag(ZLIB)) == b"x", "as Java's inflater"


@KINDS
def test_a_bomb_takes_little_memory(kind: int) -> None:
    """64 MiB of zeros in some kilobytes, with a limit of 1 MiB."""
    packed = COMPRESSORS[kind](bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(Undecodable, match="more than 1048576 bytes"):
            decompress(packed, flag(kind), 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
