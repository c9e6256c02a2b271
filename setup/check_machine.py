"""Says in one sentence what this machine lacks to build SiloMQ, and how to get it.

`python3 setup/check_machine.py` runs before anything is installed, so it uses only the standard
library, and the syntax of old versions.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Optional

NEEDED = (3, 11)


def lacks() -> Optional[str]:  # noqa: UP045 - this file also runs with versions that are too old
    """What is missing first, None if nothing is."""
    if sys.version_info < NEEDED:
        have = "{}.{}".format(*sys.version_info)
        return (
            f"SiloMQ needs Python 3.11 or newer, and {sys.executable} is {have}; "
            "try: make PYTHON=python3.12"
        )
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return f"SiloMQ needs 64-bit Linux, and this is {sys.platform}"
    words = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not words or shutil.which(words[0]) is None:
        return (
            f"SiloMQ needs a C compiler, and {words[0] if words else 'CC'} cannot be found; "
            "on Debian and Ubuntu: apt install build-essential"
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return (
            f"SiloMQ needs Python's C headers, and there is no {header}; "
            "on Debian and Ubuntu: apt install python3-dev"
        )
    return None


def lacks_environments() -> Optional[str]:  # noqa: UP045 - as above
    """What `make` needs beside that, None if it is there: it builds in a virtual environment."""
    try:
        import ensurepip  # noqa: F401 - only whether it is there
    except ImportError:
        return (
            f"{sys.executable} cannot make virtual environments; "
            "on Debian and Ubuntu: apt install python3-venv"
        )
    return None


if __name__ == "__main__":
    sys.exit(lacks() or lacks_environments())
