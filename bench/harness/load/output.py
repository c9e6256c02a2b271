"""A worker's standard output: its lines, each with one `protocol.Said`."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .protocol import Said

#: Room for the lines of many seconds, so that a worker never waits for a harness that is slow.
_PIPE_BYTES = 1 << 20


class Output:
    """Writes to the descriptor `fd`, mostly a pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        with contextlib.suppress(OSError):  # no pipe, or a user who may have no larger one
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def say(self, what: Said) -> None:
        """Writes a line. Raises BrokenPipeError if the harness has ended."""
        left = memoryview(msgspec.json.encode(what) + b"\n")
        while left:
            left = left[os.write(self._fd, left) :]
