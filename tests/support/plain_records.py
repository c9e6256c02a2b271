"""What append does to records, in plain Python: it patches them, and closes files.

The package has these in its kernel alone (`store/commitlog/_append.pyx`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from silomq.store.record.format import BLANK_BYTES, LAYOUT, MAGIC_BLANK, SYS_BORN_V6, masked_crc32
from silomq.store.record.properties import CRC_PAIR_BYTES, encode_crc

if TYPE_CHECKING:
    import mmap

    from silomq.store.record.format import ReadBuffer

_BLANK = struct.Struct(">iI")
_V6_SHIFT = 12  # an IPv6 host moves what follows it


def patch_record(
    buffer: bytearray | memoryview | mmap.mmap,
    position: int,
    queue_offset: int,
    physical_offset: int,
    store_timestamp: int,
    *,
    record_crc: bool = False,
) -> None:
    """Sets what only append knows in the record at `position`, which must have been checked before.

    With `record_crc` the last 20 bytes are the `__CRC32#` pair and are computed anew.
    """
    total, _ = _BLANK.unpack_from(buffer, position)
    struct.pack_into(">q", buffer, position + LAYOUT["queueOffset"][0], queue_offset)
    struct.pack_into(">q", buffer, position + LAYOUT["physicalOffset"][0], physical_offset)
    (sys_flag,) = struct.unpack_from(">i", buffer, position + LAYOUT["sysFlag"][0])
    shift = _V6_SHIFT if sys_flag & SYS_BORN_V6 else 0
    struct.pack_into(">q", buffer, position + LAYOUT["storeTimestamp"][0] + shift, store_timestamp)
    if record_crc:
        end = position + total
        crc = masked_crc32(buffer[position : end - CRC_PAIR_BYTES])
        buffer[end - CRC_PAIR_BYTES : end] = encode_crc(crc)


def encode_blank(remaining: int) -> bytes:
    """The 8 bytes of an end-of-file record for the last `remaining` bytes of a file (>= 8)."""
    if remaining < BLANK_BYTES:
        raise ValueError(f"an end-of-file record needs {BLANK_BYTES} bytes, {remaining} are left")
    return _BLANK.pack(remaining, MAGIC_BLANK)


def is_blank(buffer: ReadBuffer, position: int, remaining: int) -> bool:
    """Whether an end-of-file record at `position` fills its file's `remaining` bytes exactly."""
    if remaining < BLANK_BYTES or position + BLANK_BYTES > len(buffer):
        return False
    return _BLANK.unpack_from(buffer, position) == (remaining, MAGIC_BLANK)
