"""`config/delayOffset.json`: how far the messages of each delay level are delivered.

The format is that of RocketMQ's `ScheduleMessageService`. The schedule process writes the file, and
reads it at a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fastjson import LoadReport, dumps, int_keys, load_file, loads, save_file

if TYPE_CHECKING:
    import os

FILE_NAME = "delayOffset.json"


def load(path: str | os.PathLike[str]) -> tuple[dict[int, int], LoadReport]:
    """Level (from 1 on) -> queue offset of the next message to deliver; empty if there is no file.
    If the file is unreadable its `.bak` is loaded, and the report says so. Raises Corrupt if
    neither is readable.
    """
    found, report = load_file(path, parse)
    return found or {}, report


def parse(text: str) -> dict[int, int]:
    """The table in a file's text: level -> queue offset. Raises ValueError."""
    match loads(text):
        case {"offsetTable": dict() as table}:
            found = int_keys(table)
        case _:
            raise ValueError("there is no offsetTable")
    offsets: dict[int, int] = {}
    for level, offset in found.items():
        if type(offset) is not int or not 0 <= offset < 2**63:
            raise ValueError(f"the offset of level {level} is {offset!r}")
        offsets[level] = offset
    return offsets


def save(path: str | os.PathLike[str], offsets: list[int], now_ms: int, counter: int) -> None:
    """Replaces the file durably; `offsets` are those of level 1, 2, and so on. `now_ms` (epoch ms)
    and `counter` become its version. Raises OSError.
    """
    version = {"counter": counter, "stateVersion": 0, "timestamp": now_ms}
    table = {level + 1: offset for level, offset in enumerate(offsets)}
    save_file(path, dumps({"dataVersion": version, "offsetTable": table}))
