"""Memory that a client shares with the store and may write: a memfd that keeps its size.

The seals forbid to shrink or grow it. Otherwise a client could cut off pages that a process of the
store has mapped, and the next access would kill that process (SIGBUS).
"""

from __future__ import annotations

import fcntl
import os


def create(name: str, size: int) -> int:
    """A sealed memfd of `size` zero bytes. The caller owns the descriptor. Raises OSError."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(
            fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        )
    except BaseException:
        os.close(fd)
        raise
    return fd
