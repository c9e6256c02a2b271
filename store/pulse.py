"""`Pulse`: how a long piece of work says how far it is.

Recovery may take minutes, and a service manager that hears nothing would end it. So loops over
files, queues and records call a pulse. It is cheap, and whoever gave it decides what to do with it
(`supervisor/notify.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: Called with a step in words, how much of it is done, and how much there is in all: both in a unit
#: that the words name. 0 in all: not known.
Pulse: TypeAlias = Callable[[str, int, int], None]


def unheard(_step: str, _done: int, _in_all: int) -> None:
    """A pulse for work that nobody waits for."""
