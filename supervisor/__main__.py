"""`python -m silomq.supervisor [NAME=VALUE ...]`: runs a store without the `silo` command.

A store that cannot start ends with one line on stderr and the exit status of `silo serve`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

from ..conf.printable import printable
from ..conf.settings import SettingError
from ..conf.standard_streams import open_missing
from ..store.errors import Corrupt, CorruptRange, StoreError, UnsupportedFeature
from .claim import AlreadyRunning
from .listener import WrongSocket
from .live_settings import SettingsSource
from .main import serve

FAILED, SETTING, LOCKED, CORRUPT, DISK_FULL = 1, 3, 4, 5, 6


def explain(error: StoreError | OSError) -> tuple[int, str]:
    """The exit status for an error, and the sentence for stderr."""
    match error:
        case AlreadyRunning():
            return LOCKED, str(error)
        case WrongSocket():
            return SETTING, str(error)
        case Corrupt() | CorruptRange() | UnsupportedFeature():
            return CORRUPT, str(error)
        case OSError(errno=errno.EISDIR | errno.ENOTDIR | errno.ELOOP):
            return CORRUPT, f"{error.strerror} ({error.filename}): move it away, then start again"
        case OSError():
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            where = f" ({error.filename})" if error.filename else ""
            return DISK_FULL if full else FAILED, f"{error.strerror or error}{where}"
    return FAILED, str(error)


def main(arguments: Sequence[str]) -> int:
    """Runs the store with these NAME=VALUE settings, and returns the exit status. Any exception
    that it raises is a defect of SiloMQ.
    """
    open_missing()

    source = SettingsSource(overrides=tuple(arguments))
    try:
        settings = source.read()
    except SettingError as error:
        return _end(SETTING, str(error))
    except OSError as error:
        return _end(SETTING, f"cannot read the settings: {error.strerror} ({error.filename})")
    except StoreError as error:
        return _end(*explain(error))
    try:
        return serve(settings, source)
    except (StoreError, OSError) as error:
        return _end(*explain(error))


def _end(status: int, why: str) -> int:
    sys.stderr.write(printable("silomq.supervisor: " + " ".join(why.split())) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
