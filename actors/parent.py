"""A process that ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Asks the kernel to send this process the signal `number` when its parent, the process
    `parent`, dies.

    Exits if the parent is dead already: an actor of a dead store must not run at the same time as
    the actors of the next start. Raises OSError when the kernel refuses.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(1)
