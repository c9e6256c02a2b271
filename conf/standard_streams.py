"""Standard streams of a process that was started without them (`silo status >&-`, some daemons)."""

from __future__ import annotations

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_missing() -> None:
    """Opens /dev/null in the place of standard streams that are closed. Otherwise the next file
    that is opened would get the number of one, and what C code writes to that stream. To be called
    before anything else is opened: then each gets its own number, the lowest free one.
    """
    for name, mode in _STREAMS:
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(null, True)  # noqa: FBT003 - child programs have the streams too
            setattr(sys, name, open(null, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
