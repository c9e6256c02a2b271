"""Mounted file systems, from /proc/self/mountinfo."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One mounted file system: where, its type, its source, and the options of mount and file
    system together.
    """

    point: str
    kind: str
    source: str
    options: frozenset[str]


def parse(text: str) -> list[Mount]:
    """The mounts in the kernel's list, in its order: a later one hides an earlier one."""
    found = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if len(before) < 6 or len(after) < 3:
            continue
        options = frozenset((*before[5].split(","), *after[2].split(",")))
        found.append(Mount(_plain(before[4]), after[0], _plain(after[1]), options))
    return found


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def innermost(mounts: list[Mount], path: str) -> Mount:
    """The mount that has `path`, which is absolute and without links."""
    best = Mount("", "unknown", "", frozenset())
    for mount in mounts:
        inside = path == mount.point or path.startswith(f"{mount.point.rstrip('/')}/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


def mount_of(path: str | os.PathLike[str]) -> Mount:
    """The mount that has `path`. Of kind "unknown" if the kernel's list does not say."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return innermost(parse(file.read()), os.path.realpath(path))
