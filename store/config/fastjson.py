"""RocketMQ's JSON files below `config/`: their dialect, and their safe replacement.

RocketMQ writes them with fastjson, indented by tabs, `"key":value` without a space, and with
*unquoted integer keys* where a map's keys are integers (`{0:5,1:7}`), which is not JSON. `loads`
reads that and plain JSON; `dumps` writes it as RocketMQ 4.4.0 does (later versions leave out the
line breaks between entries with integer keys; each reads the other's).

`save_file` and `load_file` keep the last good state whatever happens: a file is replaced as a
whole, the one before stays as `X.bak`, and a load says when it fell back to that. RocketMQ
(`ConfigManager`, `MixAll`) has a moment without main file; here there is always one.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeVar

from ..disk.files import Folder
from ..disk.replacing import replace_file
from ..errors import Corrupt, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
#: What a JSON text holds; the keys of a dict are str, or int where they had no quotes.
Json: TypeAlias = dict[Any, Any] | list[Any] | str | int | float | bool | None

# A string is matched first and as a whole, so nothing inside one looks like a key.
_STRING_OR_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|([{,]\s*)(-?\d{1,20})(?=\s*:)', re.DOTALL)
# Marks a key that had no quotes until it is an int again. JSON text cannot hold a raw NUL.
_MARK: Final = "\\u0000int:"
_MARKED: Final = re.compile("\x00int:(-?[0-9]{1,20})")
_ESCAPES: Final = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Where a loaded state came from.

    `problem` says why it is not the main file, or what of it was left out; it belongs into the log.
    After "backup" the next `save_file` of the file should be called with `keep_backup=False`, or
    the bad main file would replace the good backup.
    """

    path: str
    source: Literal["main", "backup", "none"]
    problem: str | None = None


def loads(text: str) -> Json:
    """Parse JSON or fastjson's dialect; an unquoted integer key becomes an int, a quoted one a str.

    Raises ValueError with line and column for anything else (also NaN, and nesting too deep).
    """

    def quote(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        return f'{match[1]}"{_MARK}{match[2]}"'

    try:
        value: Json = json.loads(
            _STRING_OR_KEY.sub(quote, text),
            object_pairs_hook=_unmark,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def dumps(value: Json) -> str:
    """`value` in fastjson's indented dialect: keys in the order given, int keys without quotes.

    Takes dict, list, tuple, str, int, float, bool; a dict's entry of None is left out, as fastjson
    does.
    """
    out: list[str] = []
    _dump(value, "\n", out)
    return "".join(out)


def int_keys(table: dict[Any, T]) -> dict[int, T]:
    """A map whose keys are integers, in whichever dialect they were written; raises ValueError."""
    return {int(key): value for key, value in table.items()}


def typed(value: object, kind: type[T], what: str) -> T:
    """`value` of a parsed file, if it is a `kind`; raises ValueError naming `what` it was."""
    if isinstance(value, kind):
        return value
    raise ValueError(f"{what} is {type(value).__name__}, not {kind.__name__}")


def number(bean: Mapping[Any, Any], key: str, default: int, limit: int = 2**63 - 1) -> int:
    """The integer of a parsed file's object under `key`; raises ValueError outside 0..`limit`."""
    value = bean.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise ValueError(f"{key} is {value!r}, not a number from 0 to {limit}")
    return value


def save_file(path: str | os.PathLike[str], text: str, *, keep_backup: bool = True) -> None:
    """Makes `text` the whole of the file at `path`, durably; the file of before becomes `X.bak`
    (`keep_backup`). See `replace_file`. Raises OSError.
    """
    place, name = os.path.split(os.fspath(path))
    with Folder.open(place or ".") as folder:
        replace_file(folder, name, text.encode(), keep_backup=keep_backup)


def load_file(
    path: str | os.PathLike[str], parse: Callable[[str], T]
) -> tuple[T | None, LoadReport]:
    """The state that `path` or its backup holds, and which of them it was.

    `parse` gets the text and raises ValueError or StoreError if it cannot be right. No file at all,
    or only an empty one, is (None, "none"). Raises Corrupt if there is something, but nothing
    readable: starting with an empty state would then lose what the user still can repair.
    """
    path = os.fspath(path)
    value, problem = _read(path, parse)
    if value is not None:
        return value, LoadReport(path, "main")
    backup, backup_problem = _read(f"{path}.bak", parse)
    if backup is not None:
        return backup, LoadReport(path, "backup", f"{path} {problem}; its backup was loaded")
    bad = {p for p in (problem, backup_problem) if p not in (_MISSING, _EMPTY)}
    if bad:
        raise Corrupt(
            path,
            0,
            f"the file {problem} and its backup {backup_problem}:"
            " repair one of them, or move both away to start with an empty state",
        )
    if problem == backup_problem == _MISSING:
        return None, LoadReport(path, "none")
    return None, LoadReport(path, "none", f"{path} {problem}, its backup {backup_problem}")


_MISSING: Final = "is missing"
_EMPTY: Final = "is empty"


def _read(path: str, parse: Callable[[str], T]) -> tuple[T | None, str]:
    place, name = os.path.split(path)
    try:
        with Folder.open(place or ".") as folder:
            data = folder.read(name)
    except FileNotFoundError:
        return None, _MISSING
    if not data.strip(b" \t\r\n\0"):
        # A file system may give back a file of zeros for one that was never synced.
        return None, _EMPTY
    try:
        return parse(data.decode()), ""
    except (ValueError, StoreError) as e:
        return None, f"is unreadable ({e})"


def _unmark(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        marked = _MARKED.fullmatch(key)
        result[int(marked[1]) if marked else key] = value
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _dump(value: object, newline: str, out: list[str]) -> None:
    if isinstance(value, str):
        out.append(_quote(value))
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int | float):
        out.append(repr(value))
    elif value is None:
        out.append("null")
    elif isinstance(value, dict):
        items = [(k, v) for k, v in value.items() if v is not None]
        _dump_all(items, "{}", newline, out)
    elif isinstance(value, list | tuple):
        _dump_all([(None, v) for v in value], "[]", newline, out)
    else:
        raise TypeError(f"fastjson cannot write {type(value).__name__}")


def _dump_all(items: list[tuple[Any, Any]], braces: str, newline: str, out: list[str]) -> None:
    out.append(braces[0])
    inner = newline + "\t"
    for i, (key, value) in enumerate(items):
        out.append("," + inner if i else inner)
        if key is not None:
            out.append(f"{_quote(key)}:" if isinstance(key, str) else f"{key:d}:")
        _dump(value, inner, out)
    out.append(newline + braces[1] if items else braces[1])


def _quote(text: str) -> str:
    return f'"{_ESCAPES.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"
