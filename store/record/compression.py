"""Compressed bodies: RocketMQ's producers compress a body above 4 KiB, and its brokers store it so.

Bit 0 of the record's sysFlag says that the body is compressed, bits 8 to 10 say how (RocketMQ:
`MessageSysFlag`, `CompressionType`, `CompressorFactory`):

====  =========  ========================================================
type  name       form of the body
====  =========  ========================================================
0     zlib       a zlib stream; what clients before 4.9.4 wrote
1     LZ4        one frame of LZ4
2     Zstandard  one frame of Zstandard
3     zlib       a zlib stream
====  =========  ========================================================

RocketMQ's decompressors have no limit. Here a body has at most MAX_BODY_BYTES: 16 times the longest
message that RocketMQ's clients send by default, and little enough that a body made to exhaust the
memory does not. An empty body is never compressed, whatever the bit says.
"""

from __future__ import annotations

import zlib
from typing import Final

from .format import SYS_COMPRESSED, SYS_COMPRESSION_TYPE

MAX_BODY_BYTES: Final = 64 << 20
LEGACY, LZ4, ZSTD, ZLIB = range(4)
_TYPE_SHIFT: Final = 8
assert SYS_COMPRESSION_TYPE == 0x7 << _TYPE_SHIFT
#: A piece of Zstandard from which at most 16 MiB can come: a block of four bytes makes up to 128
#: KiB.
_ZSTD_PIECE: Final = 512


class Undecodable(ValueError):
    """Bytes that cannot be decompressed. The text says why, and has no place."""


def decompress(body: bytes, sys_flag: int, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body as it was before a producer compressed it; `body` itself if none did. Raises
    Undecodable for damaged bytes, an unknown type, and a body of more than `limit` bytes.
    """
    if not sys_flag & SYS_COMPRESSED or not body:
        return body
    kind = (sys_flag & SYS_COMPRESSION_TYPE) >> _TYPE_SHIFT
    if kind in (LEGACY, ZLIB):
        found = _inflate(body, limit)
    elif kind == LZ4:
        found = _lz4(body, limit)
    elif kind == ZSTD:
        found = _zstd(body, limit)
    else:
        raise Undecodable(f"sysFlag {sys_flag:#x} names compression {kind}, which is unknown")
    if len(found) > limit:
        raise Undecodable(f"the decompressed body has more than {limit} bytes")
    return found


def _inflate(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise Undecodable(f"the body is no zlib stream: {error}") from error
    # What follows the stream is ignored, as by Java's InflaterInputStream.
    if not stream.eof and len(found) <= limit:
        raise Undecodable("the body's zlib stream is cut off")
    return found


def _lz4(body: bytes, limit: int) -> bytes:
    import lz4.frame  # loaded here, because few readers meet such bodies

    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        found: bytes = frame.decompress(body, max_length=limit + 1)
    except RuntimeError as error:
        raise Undecodable(f"the body is no frame of LZ4: {error}") from error
    if not frame.eof and len(found) <= limit:
        raise Undecodable("the body's frame of LZ4 is cut off")
    if frame.unused_data:
        raise Undecodable("something follows the body's frame of LZ4")
    return found


def _zstd(body: bytes, limit: int) -> bytes:
    import zstandard  # loaded here, because few readers meet such bodies

    frame, pieces, size = zstandard.ZstdDecompressor().decompressobj(), [], 0
    for at in range(0, len(body), _ZSTD_PIECE):
        if frame.eof or frame.unused_data:
            raise Undecodable("something follows the body's frame of Zstandard")
        try:
            pieces.append(frame.decompress(body[at : at + _ZSTD_PIECE]))
        except zstandard.ZstdError as error:
            raise Undecodable(f"the body is no frame of Zstandard: {error}") from error
        size += len(pieces[-1])
        if size > limit:
            break
    if not frame.eof and size <= limit:
        raise Undecodable("the body's frame of Zstandard is cut off")
    if frame.unused_data:
        raise Undecodable("something follows the body's frame of Zstandard")
    return b"".join(pieces)
