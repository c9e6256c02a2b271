"""`NO_FORK`: holds up forks of this process while a descriptor has no owner yet, or no longer.

A forked child closes what its parent's clients have open (`client/forks.py`). It cannot close a
descriptor that another thread has just opened and not noted yet, or has unnoted and not closed yet.
So both steps are done under this lock, which a fork takes too. It is held for a few system calls,
never while somebody waits.
"""

from __future__ import annotations

import os
import threading
from typing import Final

#: Reentrant, because the end of an object closes its descriptors wherever a thread happens to be.
NO_FORK: Final = threading.RLock()

os.register_at_fork(
    before=NO_FORK.acquire, after_in_parent=NO_FORK.release, after_in_child=NO_FORK.release
)
