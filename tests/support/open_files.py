"""What this process has open, for tests of what must be closed again."""

from __future__ import annotations

import contextlib
import gc
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def open_files() -> dict[str, str]:
    """Each descriptor of this process and what it leads to."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found


@contextlib.contextmanager
def nothing_stays_open() -> Iterator[None]:
    """Asserts that at the end of the block just what was open before is open."""
    gc.collect()  # what earlier tests have left must not be closed meanwhile
    before = open_files()
    yield
    assert open_files() == before
