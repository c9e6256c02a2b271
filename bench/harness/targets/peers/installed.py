"""Where `make bench-peers` puts what it installs, and what is missing there."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

COMMAND = "make bench-peers"


def peers(*parts: str) -> Path:
    """A path below the folder of what was installed, in the folder of the sources."""
    return Path("build/peers", *parts).absolute()


def rocketmq(release: str) -> Path:
    """The folder of RocketMQ's jars of a release, and of what they need."""
    return Path("build/interop", release, "lib").absolute()


def class_path(*folders: Path) -> str:
    """A class path of folders, of classes or of jars."""
    return ":".join(f"{one}/*" if one.name == "lib" else str(one) for one in folders)


def missing(title: str, *needed: Path, modules: tuple[str, ...] = (), program: str = "") -> str:
    """What `Target.missing` says of a target that needs files, Python modules and a program."""
    lacking = [str(one) for one in needed if not one.exists()]
    lacking += [f"Python's {one}" for one in modules if importlib.util.find_spec(one) is None]
    if program and shutil.which(program) is None:
        lacking.append(f"the program {program}")
    if not lacking:
        return ""
    return f"{title} is not installed here: {', '.join(lacking)} is missing ({COMMAND})."
