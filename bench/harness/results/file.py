"""Reads files of results, checks what they hold, and writes whole files."""

from __future__ import annotations

import math
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ....conf.printable import printable
from ..load.latencies import NoHistogram
from . import model
from .histograms import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Result, Run

#: Bytes of a file of results at most. A soak of 20 minutes has some 2 MB.
MOST = 64 << 20
#: No figure of a measurement is greater. Below it, sums and products of figures are finite.
GREATEST = 1e18
LEVELS = range(4)
#: Where the decoder stopped, in its message.
_PLACE = re.compile(r"\(byte (\d+)\)")


class BadResult(ValueError):
    """A file that cannot be used as a result. The sentence names the file and the place in it."""


def load(path: Path) -> Result:
    """The result in a file. Raises BadResult if it cannot be read, or is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST + 1)
    except OSError as error:
        raise _bad(path, error.strerror or repr(error)) from None
    if len(data) > MOST:
        raise _bad(path, f"more than {MOST >> 20} MiB, so it is no result of silo bench")
    if not data.strip():
        raise _bad(path, "the file is empty")
    try:
        found = model.read(data)
        check(found)
    except UnicodeDecodeError as error:
        raise _bad(path, f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise _bad(path, "JSON that is nested too deeply for a result of silo bench") from None
    except msgspec.ValidationError as error:
        raise _bad(path, f"no result of silo bench that this version reads: {error}") from None
    except msgspec.DecodeError as error:
        place = _PLACE.search(str(error))
        if place is not None and int(place[1]) >= len(data):  # a number that breaks off
            raise _bad(path, f"the file was truncated, after {len(data)} bytes") from None
        raise _bad(path, f"no JSON, {len(data)} bytes: {error}") from None
    return found


def _bad(path: Path, why: str) -> BadResult:
    return BadResult(printable(f"{path}: {why}"))


def check(result: Result) -> None:
    """Raises msgspec.ValidationError with the place of the first value that no measurement gives:
    columns of unequal length, damaged histograms, or numbers out of all bounds.
    """
    if result.server.durability not in LEVELS:
        raise _invalid(f"durability {result.server.durability}: 0 to 3", "$.server.durability")
    for place, value in _numbers(msgspec.to_builtins(result), "$"):
        if not -GREATEST <= value <= GREATEST:
            raise _invalid(f"{value:g} is no figure of a measurement", place)
    for number, run in enumerate(result.runs):
        _check_run(run, f"$.runs[{number}]")


def _invalid(why: str, place: str) -> msgspec.ValidationError:
    return msgspec.ValidationError(f"{why} - at `{place}`")


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """All numbers and their places. Endless ones and NaN are not in JSON, but may be given."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _numbers(one, f"{place}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _numbers(one, f"{place}[{number}]")
    elif isinstance(value, int | float):
        yield place, math.inf if math.isnan(value) else value


def _check_run(run: Run, place: str) -> None:
    times = run.series.time
    if any(after < before for before, after in pairwise(times)):
        raise _invalid("times that run back", f"{place}.series.time")
    for name, column in run.series.columns.items():
        if len(column) != len(times):
            why = f"{len(column)} values for {len(times)} times"
            raise _invalid(why, f"{place}.series.columns.{name}")
    for kind, latency in run.latency.items():
        where = f"{place}.latency.{kind}"
        try:
            count = decode(latency.histogram).get_total_count()
        except NoHistogram as error:
            raise _invalid(str(error), f"{where}.histogram") from None
        if count != latency.count:
            why = f"count {latency.count}, but the histogram has {count}"
            raise _invalid(why, f"{where}.count")


def readable(result: Result) -> bytes:
    """A result as JSON for people too: a key a line, and all of a column or of samples in one."""
    return _indented(msgspec.to_builtins(result), "\n").encode() + b"\n"


def _indented(value: Any, line: str) -> str:
    inner = line + " "
    if isinstance(value, dict) and value:
        pairs = (f"{_plain(key)}: {_indented(one, inner)}" for key, one in value.items())
        return "{" + inner + f",{inner}".join(pairs) + line + "}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[" + inner + f",{inner}".join(_indented(one, inner) for one in value) + line + "]"
    return _plain(value)


def _plain(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file so that a reader finds all of it or what was there before. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
