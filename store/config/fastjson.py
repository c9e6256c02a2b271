"""RocketMQ's JSON files below `config/`: their dialect, and their safe replacement.

RocketMQ writes them with fastjson: indented by tabs, `"key":value` without a space. Keys of maps
that are integers stand without quotes (`{0:5,1:7}`), which is not JSON. `loads` reads this dialect
and plain JSON. `dumps` writes it as RocketMQ 4.4.0 does. Later versions write no line breaks
between entries with integer keys, and each version reads the files of the others.

`save_file` and `load_file` keep the last good state. A file is replaced as a whole, its previous
state stays as `X.bak`, and a load reports when it used that. In RocketMQ (`ConfigManager`,
`MixAll`) the main file is missing for a moment; here there is always one.
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
#: A value of a JSON text. The keys of a dict are str, or int if they had no quotes.
Json: TypeAlias = dict[Any, Any] | list[Any] | str | int | float | bool | None

# A string is matched first and as a whole, so nothing inside one looks like a key.
_STRING_OR_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|([{,]\s*)(-?\d{1,20})(?=\s*:)', re.DOTALL)
# Marks a key that had no quotes until it becomes an int. RocketMQ's own keys hold no NUL.
_MARK: Final = "\\u0000int:"
_MARKED: Final = re.compile("\x00int:(-?[0-9]{1,20})")
_ESCAPES: Final = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Where a loaded state came from.

    `problem` is for the log: why it is not the main file, or which parts of it were left out. After
    "backup" the caller passes `keep_backup=False` to its next `save_file`, or the bad main file
    would replace the good backup.
    """

    path: str
    source: Literal["main", "backup", "none"]
    problem: str | None = None


def loads(text: str) -> Json:
    """Parses JSON or fastjson's dialect. Unquoted integer keys become int, quoted keys str.

    Raises ValueError for anything else, also for NaN and for nesting that is too deep. Where the
    JSON parser raises it, it names line and column.
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

    Takes dict, list, tuple, str, int, float, bool and None. Entries of a dict whose value is None
    are left out, as fastjson does. Raises TypeError for other types.
    """
    out: list[str] = []
    _dump(value, "\n", out)
    return "".join(out)


def int_keys(table: dict[Any, T]) -> dict[int, T]:
    """A parsed map with its keys as integers, whether they had quotes or not. Raises ValueError."""
    return {int(key): value for key, value in table.items()}


def typed(value: object, kind: type[T], what: str) -> T:
    """`value` of a parsed file, if it is a `kind`. Otherwise raises ValueError, which names it as
    `what`.
    """
    if isinstance(value, kind):
        return value
    raise ValueError(f"{what} is {type(value).__name__}, not {kind.__name__}")


def number(bean: Mapping[Any, Any], key: str, default: int, limit: int = 2**63 - 1) -> int:
    """The integer under `key` in an object of a parsed file, `default` without such a key. Raises
    ValueError outside 0..`limit`.
    """
    value = bean.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise ValueError(f"{key} is {value!r}, not a number from 0 to {limit}")
    return value


def save_file(path: str | os.PathLike[str], text: str, *, keep_backup: bool = True) -> None:
    """Replaces the file at `path` by `text`, durably. With `keep_backup` the old file becomes
    `X.bak`. See `replace_file`. Raises OSError.
    """
    place, name = os.path.split(os.fspath(path))
    with Folder.open(place or ".") as folder:
        replace_file(folder, name, text.encode(), keep_backup=keep_backup)


def load_file(
    path: str | os.PathLike[str], parse: Callable[[str], T]
) -> tuple[T | None, LoadReport]:
    """The state that `path` or its backup holds, and a report which of them it was.

    `parse` gets the text and raises ValueError or StoreError if it is not valid. If the files are
    missing or empty, the state is None and the report's source "none". Raises Corrupt if one of the
    files holds something and neither is readable: to start with an empty state would then lose what
    the user can still repair.
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
        # After a power cut some file systems show zeros for a file that was never synced.
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
