"""`QueueCount`: one queue as a start counts it, and what may be wrong with its files."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ..disk.files import Folder
from ..disk.paths import file_name
from ..errors import Corrupt


class QueueCount(NamedTuple):
    """One queue, as a start counts it: the queue offset behind the last entry whose record begins
    below a limit, and that of the first entry whose record is still in the log. `bad` says what is
    wrong with the queue's files, or is "".
    """

    topic: str
    queue_id: int
    end: int
    least: int
    bad: str


def bad_file(queue: Folder, bases: list[int], file_size: int) -> str:
    """Which of a queue's files is missing, or too short though others follow it, as a text; "" if
    none is. `bases` are the offsets of its files, ascending. Raises Corrupt for what is no file,
    OSError.
    """
    for base, behind in pairwise(bases):
        found = queue.about(file_name(base))
        if not found.is_file:
            why = "this is no file: move it away, then run: silo repair --rebuild"
            raise Corrupt(f"{queue.path}/{file_name(base)}", 0, why)
        if found.size < file_size:
            return f"{queue.path}/{file_name(base)} has {found.size} of {file_size} bytes"
        if behind != base + file_size:
            return f"{queue.path}/{file_name(base + file_size)} is missing"
    return ""
