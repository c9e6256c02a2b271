"""Bytes whose end is the end of readable memory: who reads behind it dies."""

from __future__ import annotations

import ctypes
import mmap

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fence:
    """Memory of `size` bytes (rounded up to pages) with a page behind it that nobody may read."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if _LIBC.mprotect(start + self.size, mmap.PAGESIZE, 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def hold(self, data: bytes) -> memoryview:
        """The bytes, copied so that they end at the fence."""
        view = memoryview(self._memory)[self.size - len(data) : self.size]
        view[:] = data
        return view
