"""`config/delayOffset.json`: how far the messages of each delay level are delivered.

The format is that of RocketMQ's `ScheduleMessageService`. The schedule process writes the file, and
reads it at a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fastjson import (
    LoadReport,
    Parsed,
    dumps,
    int_keys,
    load_file,
    loads,
    number,
    save_file,
)

if TYPE_CHECKING:
    import os

FILE_NAME = "delayOffset.json"


def load(path: str | os.PathLike[str]) -> tuple[dict[int, int], LoadReport]:
    """Level (from 1 on) -> queue offset of the next message to deliver; empty if there is no file.
    If the file is unreadable its `.bak` is loaded, and the report says so. Raises Corrupt if
    neither is readable.
    """
    return load_file(path, parse, dict)


def parse(text: str, backup: Parsed[dict[int, int]] | None = None) -> Parsed[dict[int, int]]:
    """The table in a file's text: level -> queue offset. Levels whose values are bad come from
    `backup`. Raises ValueError.
    """
    match loads(text):
        case {"offsetTable": dict() as table}:
            parsed: Parsed[dict[int, int]] = Parsed({})
        case _:
            raise ValueError("there is no offsetTable")
    for key, offset in table.items():
        try:
            (level,) = int_keys({key: offset})
            parsed.value[level] = number({"it": offset}, "it", 0)
        except ValueError as error:
            parsed.bad.append(f"the offset of level {str(key)[:40]!a} is bad: {error}")
    if parsed.bad:
        parsed.value = {**(backup.value if backup else {}), **parsed.value}
    return parsed


def save(
    path: str | os.PathLike[str],
    offsets: list[int],
    now_ms: int,
    counter: int,
    *,
    main_is_good: bool = True,
) -> None:
    """Replaces the file durably; `offsets` are those of level 1, 2, and so on. `now_ms` (epoch ms)
    and `counter` become its version. `main_is_good` is that of the LoadReport. Raises OSError.
    """
    version = {"counter": counter, "stateVersion": 0, "timestamp": now_ms}
    table = {level + 1: offset for level, offset in enumerate(offsets)}
    save_file(
        path, dumps({"dataVersion": version, "offsetTable": table}), main_is_good=main_is_good
    )
