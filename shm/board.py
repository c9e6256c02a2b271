"""A board: memory on which a session shows a document to whoever asks the registry for it.

A broker has one, because it can write nothing in the store's folder. The registry makes the memory,
and hands it out: once for writing, to its session, and read-only to others. It is sealed
(`sealed.py`), and no user but the store's own can open it again.

The writer replaces the whole document. A reader copies header and document, and takes them only if
the check sum fits. Otherwise it was written meanwhile, and the reader tries again. So a reader gets
whole documents, in whatever order the writer's stores become visible to it. Nothing here is
believed: a session may write what it likes, and what does not fit is a BadBoard for its reader.

`length` and `number` count for the check sum as they stand in the header, before the document.

Layout board:

======  ====  ====  ======  ==========================================================
offset  size  type  field   meaning
======  ====  ====  ======  ==========================================================
0       4     u32   crc     client: CRC-32 of the rest of the header, and the document
4       4     u32   length  client: bytes of the document
8       8     u64   number  client: of the document, from 1 on; 0 before the first one
======  ====  ====  ======  ==========================================================

The document follows at offset 16.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from typing import Final

from . import sealed
from ._memory import Mapping

SIZE: Final = 65536
BOARD: Final[dict[str, tuple[int, int]]] = {"crc": (0, 4), "length": (4, 4), "number": (8, 8)}
LAYOUTS = {"board": BOARD}
#: Layout -> field -> writer.
WRITERS = {"board": dict.fromkeys(BOARD, "client")}
_CRC: Final = struct.Struct("<I")
_REST: Final = struct.Struct("<IQ")
_DATA: Final = _CRC.size + _REST.size
#: The longest document, bytes.
MOST: Final = SIZE - _DATA
#: Only the store's user may open the memory again, by way of a descriptor that is read-only.
_MODE: Final = 0o600
_AGAIN_S: Final = 0.001


class BadBoard(ValueError):
    """A board without a whole document. The text says why."""


def create(session: int) -> int:
    """A new board for a session, without a document. The caller owns the descriptor. Raises
    OSError.
    """
    fd = sealed.create(f"silomq-board-{session}", SIZE)
    try:
        os.fchmod(fd, _MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def for_readers(fd: int) -> int:
    """A read-only descriptor of a board, which the caller closes. Raises OSError."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


class BoardWriter:
    """Writes documents on the board behind `fd`, which it does not keep."""

    def __init__(self, fd: int) -> None:
        self._memory = memoryview(Mapping(fd, 0, SIZE))
        self._number = 0

    def write(self, document: bytes) -> None:
        """Replaces the document, of at most `MOST` bytes."""
        assert len(document) <= MOST, "the writer keeps to the size"
        self._number += 1
        data = _REST.pack(len(document), self._number) + document
        # SYNC: board-document publish: the check sum says whether the rest was seen.
        self._memory[: _CRC.size + len(data)] = _CRC.pack(zlib.crc32(data)) + data


def read(fd: int, deadline: float) -> bytes:
    """The document on a board. Tries again until `deadline` (monotonic, s), but once at least,
    while there is none. Raises BadBoard.
    """
    memory = memoryview(Mapping(fd, 0, SIZE, writable=False))
    while True:
        # SYNC: board-document observe: a copy that is not whole does not have its check sum.
        (crc,) = _CRC.unpack_from(memory)
        length, number = _REST.unpack_from(memory, _CRC.size)
        if number and length <= MOST:
            data = bytes(memory[_CRC.size : _DATA + length])
            if zlib.crc32(data) == crc and data[: _REST.size] == _REST.pack(length, number):
                return data[_REST.size :]
        if time.monotonic() >= deadline:
            break
        time.sleep(_AGAIN_S)
    if not number:
        raise BadBoard("nothing was written on it yet")
    if length > MOST:
        raise BadBoard(f"a document of {length} bytes: at most {MOST}")
    raise BadBoard("its document has another check sum, or is just being written")
