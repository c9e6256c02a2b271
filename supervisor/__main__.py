"""`python -m silomq.supervisor [NAME=VALUE ...]`: runs a store without the `silo` command.

A store that cannot start ends with one line on stderr and the exit status of `silo serve`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

from ..conf.settings import SettingError, load
from ..store.errors import Corrupt, CorruptRange, StoreError
from .claim import AlreadyRunning
from .main import serve

FAILED, SETTING, LOCKED, CORRUPT, DISK_FULL = 1, 3, 4, 5, 6


def explain(error: StoreError | OSError) -> tuple[int, str]:
    """The exit status for an error, and the sentence for stderr."""
    match error:
        case AlreadyRunning():
            return LOCKED, str(error)
        case Corrupt() | CorruptRange():
            return CORRUPT, str(error)
        case OSError():
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            where = f" ({error.filename})" if error.filename else ""
            return DISK_FULL if full else FAILED, f"{error.strerror or error}{where}"
    return FAILED, str(error)


def main(arguments: Sequence[str]) -> int:
    """Runs the store with these NAME=VALUE settings, and returns the exit status. Any exception
    that it raises is a defect of SiloMQ.
    """
    try:
        settings = load(overrides=list(arguments))
    except SettingError as error:
        return _end(SETTING, str(error))
    except OSError as error:
        return _end(SETTING, f"cannot read the settings: {error.strerror} ({error.filename})")
    try:
        return serve(settings)
    except (StoreError, OSError) as error:
        return _end(*explain(error))


def _end(status: int, why: str) -> int:
    sys.stderr.write("silomq.supervisor: " + " ".join(why.split()) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
