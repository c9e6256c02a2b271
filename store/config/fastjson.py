"""RocketMQ's JSON files below `config/`: their dialect, and their safe replacement.

RocketMQ writes them with fastjson: indented by tabs, `"key":value` without a space. Keys of maps
that are integers stand without quotes (`{0:5,1:7}`), which is not JSON. `loads` reads this dialect
and plain JSON. `dumps` writes it as RocketMQ 4.4.0 does. Later versions write no line breaks
between entries with integer keys, and each version reads the files of the others.

`save_file` and `load_file` keep the last good state. A file is replaced as a whole, its previous
state stays as `X.bak`, and a load reports when it used that. A file that was bad, or had bad
values, stays as `X.bad-TIME`. In RocketMQ (`ConfigManager`,
`MixAll`) the main file is missing for a moment; here there is always one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import time
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NoReturn, TypeAlias, TypeVar

import msgspec

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
_MAY_BE_KEY: Final = re.compile(r"[{,]\s*-?\d{1,20}\s*:")
# Marks a key that had no quotes until it becomes an int. RocketMQ's own keys hold no NUL.
_MARK: Final = "\\u0000int:"
_MARKED: Final = re.compile("\x00int:(-?[0-9]{1,20})")
_DEEPEST: Final = 50
_MOST_TOLD: Final = 20
_MOST_WHY: Final = 300
_ESCAPES: Final = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip


class LoadReport(msgspec.Struct, frozen=True):
    """Where a loaded state came from.

    `problem` is for the log: why it is not the main file, or which parts of it were left out. If
    not `main_is_good`, the caller passes `main_is_good=False` to its next `save_file`, or the bad
    main file would replace the good backup.
    """

    path: str
    source: Literal["main", "backup", "none"]
    problem: str | None = None
    main_is_good: bool = True


class Parsed(msgspec.Struct, Generic[T]):
    """What a file holds: the value, remarks for the log (`problems`), and why which values cannot
    be right (`bad`). Those are not part of the value, or come from the backup.
    """

    value: T
    problems: list[str] = []
    bad: list[str] = []


#: Parses a text. The second argument is what the backup holds, for values that are bad in the text;
#: None if there is no backup. Raises ValueError or StoreError for a text that is bad as a whole.
Parse: TypeAlias = "Callable[[str, Parsed[T] | None], Parsed[T]]"


def loads(text: str) -> Json:
    """Parses JSON or fastjson's dialect. Unquoted integer keys become int, quoted keys str.

    Raises ValueError for anything else, also for NaN and for nesting that is too deep. Where the
    JSON parser raises it, it names line and column.
    """

    def quote(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        return f'{match[1]}"{_MARK}{match[2]}"'

    if _MAY_BE_KEY.search(text):  # plain JSON needs no such copy of the text
        text = _STRING_OR_KEY.sub(quote, text)
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_unmark,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


class Rendered(str):
    """A text that `dumps` has made, and takes as it stands."""

    __slots__ = ()


def dumps(value: Json, depth: int = 0) -> Rendered:
    """`value` in fastjson's indented dialect: keys in the order given, int keys without quotes.
    `depth` is how many values it will lie within.

    Takes dict, list, tuple, str, int, float, bool and None. Entries of a dict whose value is None
    are left out, as fastjson does. Raises TypeError for other types.
    """
    out: list[str] = []
    _dump(value, "\n" + "\t" * depth, out)
    return Rendered("".join(out))


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


def plain(value: Any, what: str) -> Any:
    """`value` of a parsed file, to be written back as it is. Raises ValueError for one that is
    nested too deep for that, which names it as `what`.
    """
    inner = [value]
    for _ in range(_DEEPEST):
        inner = [
            each
            for outer in inner
            if isinstance(outer, dict | list)
            for each in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not inner:
            return value
    raise ValueError(f"{what} is nested more than {_DEEPEST} deep")


def save_file(path: str | os.PathLike[str], text: str, *, main_is_good: bool = True) -> None:
    """Replaces the file at `path` by `text`, durably. The old file becomes `X.bak`, see
    `replace_file`. With `main_is_good=False` it becomes `X.bad-TIME` (epoch ms) instead. Raises
    OSError.
    """
    place, name = os.path.split(os.fspath(path))
    with Folder.open(place or ".") as folder:
        if not main_is_good:
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                folder.link(name, f"{name}.bad-{time.time_ns() // 1_000_000}")
        replace_file(folder, name, text.encode(), keep_backup=main_is_good)


def load_file(
    path: str | os.PathLike[str], parse: Parse[T], empty: Callable[[], T]
) -> tuple[T, LoadReport]:
    """The state that `path` or its backup holds, and a report which of them it was.

    A single bad value comes from the backup, if it has a good one, or is left out. A file that is
    bad as a whole is replaced by its backup. If the files are missing or empty, the state is
    `empty()` and the report's source "none".

    Raises Corrupt if one of the files holds something and neither is readable: to start with an
    empty state would then lose what the user can still repair. Raises it also if one of them is no
    file, or may not be read.
    """
    path = os.fspath(path)
    main, text, problem = _read(path, parse)
    if main is not None and not main.bad:
        said = _told(path, main)
        return main.value, LoadReport(path, "main", said)
    backup, _, backup_problem = _read(f"{path}.bak", parse)
    if main is not None:
        main = parse(text, backup)
        used = "the backup's values were used" if backup else "these values were left out"
        said = _told(path, main, used)
        return main.value, LoadReport(path, "main", said, main_is_good=False)
    if backup is not None:
        said = f"{path} {problem}; its backup was loaded"
        more = _told(f"{path}.bak", backup, "these values were left out")
        said = f"{said}; {more}" if more else said
        return backup.value, LoadReport(path, "backup", said, main_is_good=False)
    bad = {p for p in (problem, backup_problem) if p not in (_MISSING, _EMPTY)}
    if bad:
        raise Corrupt(
            path,
            0,
            f"the file {problem} and its backup {backup_problem}:"
            " repair one of them, or move both away to start with an empty state",
        )
    if problem == backup_problem == _MISSING:
        return empty(), LoadReport(path, "none")
    return empty(), LoadReport(path, "none", f"{path} {problem}, its backup {backup_problem}")


_MISSING: Final = "is missing"
_EMPTY: Final = "is empty"


def _told(path: str, parsed: Parsed[Any], used: str = "") -> str | None:
    """The sentence for the log about the parts of a file that were not used as they are."""
    said = [*parsed.bad[:_MOST_TOLD], *parsed.problems[:_MOST_TOLD]]
    more = len(parsed.bad) + len(parsed.problems) - len(said)
    if more:
        said.append(f"and {more} more")
    if not said:
        return None
    return f"{path}: {'; '.join(said)}" + (f" ({used})" if parsed.bad else "")


def _read(path: str, parse: Parse[T]) -> tuple[Parsed[T] | None, str, str]:
    """(what the file holds, its text, why it holds nothing)."""
    place, name = os.path.split(path)
    try:
        with Folder.open(place or ".") as folder:
            data = folder.read(name)
    except FileNotFoundError:
        return None, "", _MISSING
    except OSError as error:
        raise Corrupt(
            path, 0, f"it cannot be read ({error.strerror}): put a file there, or move it away"
        ) from error
    if not data.strip(b" \t\r\n\0"):
        # After a power cut some file systems show zeros for a file that was never synced.
        return None, "", _EMPTY
    try:
        text = data.decode("utf-8-sig")
        return parse(text, None), text, ""
    except (ValueError, StoreError) as e:
        return None, "", f"is unreadable ({str(e)[:_MOST_WHY]})"


def _unmark(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        marked = _MARKED.fullmatch(key)
        result[int(marked[1]) if marked else key] = value
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _dump(value: object, newline: str, out: list[str]) -> None:
    if isinstance(value, Rendered):
        out.append(value)
    elif isinstance(value, str):
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
