"""`FrameReader`: cuts the bytes of a connection into frames."""

from __future__ import annotations

from .command import MAX_FRAME, WORD, BadFrame, check_header

_COMPACT = 1 << 16


class FrameReader:
    """The frames in a stream of bytes that arrives in pieces of any length. `limit` is the longest
    frame, in bytes with its first word.

    It keeps what has arrived of an unfinished frame, so its memory is bounded by the limit and by
    the longest piece.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._data = bytearray()
        self._at = 0

    def feed(self, piece: bytes) -> None:
        """Adds what has arrived."""
        self._data += piece

    def take(self) -> bytes | None:
        """The next whole frame without its first word; None until more has arrived.

        Raises BadFrame as soon as the two words at a frame's begin say that it cannot be one.
        """
        data, at = self._data, self._at
        left = len(data) - at
        if left >= WORD.size:
            (length,) = WORD.unpack_from(data, at)
            if not WORD.size <= length <= self._limit - WORD.size:
                raise BadFrame(f"a frame of {length} bytes: 4 to {self._limit - WORD.size}")
            if left >= 2 * WORD.size:
                check_header(WORD.unpack_from(data, at + WORD.size)[0], length)
            if left >= WORD.size + length:
                self._at = at + WORD.size + length
                return bytes(data[at + WORD.size : self._at])
        if at == len(data) or at > _COMPACT:
            del data[:at]
            self._at = 0
        return None

    @property
    def waiting(self) -> int:
        """Bytes that have arrived and were not taken."""
        return len(self._data) - self._at
