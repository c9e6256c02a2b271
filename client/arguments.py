"""The checks of what users pass to clients: each turns one argument into a typed, bounded value.

Every public call checks its arguments here before it does anything. The compiled calls test the
exact types that are usual by themselves, and come here with all others.

- A wrong type raises IllegalType, a value out of range IllegalArgument. Both name the argument.
- Whole numbers: an int, or an object with `__index__` such as NumPy's. A bool is no number, because
  `queue=True` is a slip of the pen.
- Switches: True or False, and nothing that is only true-ish: `check_crc="no"` would be True.
- Texts: a str that has a UTF-8 form. A subclass becomes a plain str, because its methods may answer
  anything.
- Time-outs: seconds from 0 on. None and infinity are no limit. A negative one is refused, as by
  `queue.Queue.get`: it is mostly a deadline that was computed wrongly.
- What an argument's own methods raise while it is converted is the cause of an IllegalArgument.
  Exceptions that end a program (KeyboardInterrupt) pass through.
"""

from __future__ import annotations

import enum
import itertools
import math
import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeVar

from ..store.errors import IllegalArgument, IllegalType, StoreError

_T = TypeVar("_T")

#: The largest number of a record, a queue entry or a request.
MOST: Final = 2**63 - 1
_PLAIN = (bool, int, float, type(None))
_SHOWN: Final = 40
_PATH_MAX: Final = 4096  # Linux's, in bytes


class Own(enum.Enum):
    """Stands for a time-out that was not given: None says that there is no limit."""

    OWN = "the producer's"

    def __repr__(self) -> str:
        return f"<{self.value}>"


#: The default of a call's `timeout`: the producer's own.
OWN: Final = Own.OWN


def shown(value: object) -> str:
    """A value for an error's message: short, one line, and none of its own methods is called."""
    if type(value) is str:
        return ascii(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!a}..."
    if type(value) is int and value.bit_length() > 256:
        return f"an int of {value.bit_length()} bits"
    return repr(value) if type(value) in _PLAIN else f"of type {type(value).__name__}"


def named(value: object) -> str:
    """A callback for the log. The repr of a user's own object may raise, so it is not asked for."""
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, types.MethodType):
        return named(value.__func__)
    return f"an object of type {type(value).__name__}"


def refuse_type(name: str, value: object, wanted: str) -> NoReturn:
    """Raises IllegalType."""
    raise IllegalType(f"{name} must be {wanted}, not {type(value).__name__}")


def whole(name: str, value: object, least: int = 0, most: int = MOST) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        refuse_type(name, value, "a whole number")
    number: int = converted(name, value, operator.index)
    if not least <= number <= most:
        raise IllegalArgument(f"{name} {shown(number)}: {_range(least, most)}")
    return int(number)


def _range(least: int, most: int) -> str:
    if most >= MOST:
        return f"a whole number, at least {least}"
    return f"a whole number from {least} to {most}"


def switch(name: str, value: object) -> bool:
    """True or False."""
    if value is True or value is False:
        return value
    refuse_type(name, value, "True or False")


def text(name: str, value: object) -> str:
    """A plain str that has a UTF-8 form."""
    if not isinstance(value, str):
        refuse_type(name, value, "str")
    plain = str.__str__(value)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise IllegalArgument(
                f"{name} {shown(plain)} holds a lone surrogate, which has no UTF-8 form"
            ) from error
    return plain


def choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of `choices`."""
    found = text(name, value)
    if found not in choices:
        raise IllegalArgument(f"{name} {shown(found)}: {' or '.join(map(repr, choices))}")
    return found


def offset(value: object) -> str | int:
    """A queue offset as users name one: the word earliest or latest, or a number from 0 on."""
    allowed = "'earliest', 'latest' or a queue offset from 0 on"
    if isinstance(value, str) and value in {"earliest", "latest"}:
        return str.__str__(value)
    if isinstance(value, str | bool) or not hasattr(type(value), "__index__"):
        kind = IllegalArgument if isinstance(value, str) else IllegalType
        raise kind(f"offset {shown(value)}: {allowed}")
    try:
        return whole("offset", value)
    except IllegalArgument as error:
        raise IllegalArgument(f"offset {shown(value)}: {allowed}") from error


def seconds(name: str, value: object) -> float:
    """A time-out in seconds; infinity for None."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not (
        hasattr(type(value), "__float__") or hasattr(type(value), "__index__")
    ):
        refuse_type(name, value, "a number of seconds, or None for no limit")
    found = converted(name, value, _seconds)
    if not found >= 0:  # nan is neither
        raise IllegalArgument(f"{name} {found}: seconds from 0 on, or None for no limit")
    return found


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int with more than 1024 bits
        return math.inf if value > 0 else -1.0


def store(value: object) -> str:
    """A store's folder."""
    if not isinstance(value, str | os.PathLike):
        refuse_type("store", value, "str or os.PathLike")
    path = converted("store", value, os.fspath)
    if not isinstance(path, str):
        refuse_type("store", path, "a path of str")
    path = str.__str__(path)
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError as error:
        raise IllegalArgument(f"store {shown(path)} holds a lone surrogate") from error
    if not 0 < length < _PATH_MAX or "\0" in path:
        raise IllegalArgument(f"store {shown(path)}: the path of a folder, below {_PATH_MAX} bytes")
    return path


def function(name: str, value: Callable[..., _T]) -> Callable[..., _T]:
    """Something that can be called."""
    if not callable(value):
        refuse_type(name, value, "callable")
    return value


def several(name: str, value: Iterable[_T], most: int) -> list[_T]:
    """The elements of an iterable, of which there are at most `most`. A str or bytes is no
    iterable of anything that a client takes.
    """
    if isinstance(value, str | bytes | bytearray | memoryview) or not is_iterable(value):
        refuse_type(name, value, "an iterable")
    found: list[_T] = converted(name, value, lambda v: list(itertools.islice(v, most + 1)))
    if len(found) > most:
        raise IllegalArgument(f"{name} has more than {most} elements")
    return found


def is_iterable(value: object) -> bool:
    """Whether `iter` would take it, as far as its type says."""
    kind = type(value)
    return getattr(kind, "__iter__", None) is not None or hasattr(kind, "__getitem__")


def mapping(name: str, value: Mapping[Any, _T], most: int) -> dict[Any, _T]:
    """A copy of a mapping of at most `most` pairs."""
    if not isinstance(value, Mapping):
        refuse_type(name, value, "a mapping")
    pairs = converted(name, value, lambda v: list(itertools.islice(v.items(), most + 1)))
    if len(pairs) > most:
        raise IllegalArgument(f"{name} has more than {most} elements")
    found: dict[Any, _T] = converted(name, pairs, dict)
    return found


def body(name: str, value: object) -> bytes:
    """The bytes of a message's body: a str as UTF-8, or the bytes of an object with a buffer, in
    the order of its elements.
    """
    if isinstance(value, str):
        return text(name, value).encode()
    try:
        view = memoryview(value)  # type: ignore[arg-type] # anything may come here
    except TypeError as error:
        raise IllegalType(
            f"{name} must be bytes-like or str, not {type(value).__name__}"
        ) from error
    except Exception as error:
        raise _no_conversion(name, value, error) from error
    with view:
        if "O" in view.format:  # NumPy's arrays of objects: their bytes are addresses
            refuse_type(name, value, "bytes-like without references to objects")
        return converted(name, view, memoryview.tobytes)


def converted(name: str, value: Any, convert: Callable[[Any], _T]) -> _T:
    """`convert(value)`. What the value's own methods raise becomes the cause of an
    IllegalArgument.
    """
    try:
        return convert(value)
    except StoreError:
        raise
    except Exception as error:
        raise _no_conversion(name, value, error) from error


def _no_conversion(name: str, value: object, error: Exception) -> IllegalArgument:
    return IllegalArgument(
        f"{name} of type {type(value).__name__} cannot be used: it raised {type(error).__name__}"
    )


def no_copy(self: object, _protocol: object = None) -> NoReturn:
    """`__reduce_ex__` of a client: `copy` and `pickle` call it."""
    raise IllegalType(
        f"a {type(self).__name__} cannot be copied or pickled, because it is a session with a "
        "store: open another one where it is needed"
    )
