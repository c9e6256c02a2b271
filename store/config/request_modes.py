"""`config/messageRequestMode.json`: how the consumers of a group read a topic, PULL or POP, for
those who ask a broker. RocketMQ's `MessageRequestModeManager`, in its dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..errors import IllegalMessage
from ..names import validate_group, validate_topic
from .fastjson import LoadReport, Parsed, dumps, load_file, loads, number, save_file

if TYPE_CHECKING:
    import os

MODES_FILE: Final = "messageRequestMode.json"
PULL: Final = "PULL"
POP: Final = "POP"

#: (topic, group) -> mode and popShareQueueNum.
RequestModes = dict[tuple[str, str], tuple[str, int]]


def load(path: str | os.PathLike[str]) -> tuple[RequestModes, LoadReport]:
    """The modes in `path` or its `.bak`, none without either. Raises Corrupt if neither of them is
    readable.
    """
    return load_file(path, parse, dict)


def save(path: str | os.PathLike[str], modes: RequestModes, *, main_is_good: bool = True) -> None:
    """Replaces the file durably. Raises OSError."""
    save_file(path, render(modes), main_is_good=main_is_good)


def render(modes: RequestModes) -> str:
    """The text of the file."""
    return dumps({"messageRequestModeMap": table(modes)})


def table(modes: RequestModes) -> dict[str, dict[str, dict[str, Any]]]:
    """The modes as RocketMQ shows them: by topic, then by group."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (topic, group), (mode, share) in sorted(modes.items()):
        found.setdefault(topic, {})[group] = {
            "consumerGroup": group,
            "mode": mode,
            "popShareQueueNum": share,
            "topic": topic,
        }
    return found


def parse(text: str, backup: Parsed[RequestModes] | None = None) -> Parsed[RequestModes]:
    """The modes in a file's text. Entries that make no sense come from `backup`, or are left out.
    Raises ValueError.
    """
    match loads(text):
        case {"messageRequestModeMap": dict() as topics}:
            parsed: Parsed[RequestModes] = Parsed({})
        case _:
            raise ValueError("there is no messageRequestModeMap")
    for topic, groups in topics.items():
        for group, entry in groups.items() if isinstance(groups, dict) else ():
            try:
                validate_topic(topic)
                validate_group(group)
                parsed.value[topic, group] = _mode(entry)
            except (ValueError, TypeError, KeyError, IllegalMessage) as error:
                parsed.bad.append(f"the mode of {str(topic)[:40]!a}: {error}")
    if parsed.bad:
        parsed.value = {**(backup.value if backup else {}), **parsed.value}
    return parsed


def _mode(entry: Any) -> tuple[str, int]:
    """An entry of the file. Raises ValueError, TypeError, KeyError."""
    if entry["mode"] not in (PULL, POP):
        raise ValueError(f"{str(entry['mode'])[:40]!a} is not {PULL} or {POP}")
    return entry["mode"], number(entry, "popShareQueueNum", 0)
