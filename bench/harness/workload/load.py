"""Reads a workload: a file or a shipped one, with keys changed (`--set`), and its sweep's steps."""

from __future__ import annotations

import copy
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from . import openmessaging, shipped
from .values import convert
from .workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_FILE = 1 << 20
#: A result holds the series and histograms of its runs too.
_MOST_RESULT = 64 << 20
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<place>.*)`)?$", re.DOTALL)


class BadWorkload(ValueError):
    """A workload that cannot be run: its file, the key, and what is allowed there."""


@dataclass(frozen=True)
class Step:
    """One step of a sweep: the last part of its key, and the value; "" and 0 without a sweep."""

    label: str
    value: float
    workload: Workload


@dataclass(frozen=True)
class Plan:
    """A workload as it will be run."""

    name: str
    workload: Workload
    steps: list[Step]


def load(where: str, changes: Iterable[str] = ()) -> Plan:
    """The workload `where`: a file's path, or the name of a shipped one. A file may be TOML, YAML
    of OpenMessaging Benchmark, or the JSON of a result, whose workload is run again. `changes` are
    texts KEY=VALUE. Raises BadWorkload, OSError.
    """
    name, source, raw = _read(where)
    for change in changes:
        _change(raw, change)
    workload = _decode(source, raw)
    if workload.sweep is None:
        return Plan(name, workload, [Step("", 0.0, workload)])
    steps = []
    for number, value in enumerate(workload.sweep.values):
        changed = copy.deepcopy(raw)
        del changed["sweep"]
        _put(source, changed, workload.sweep.key, value)
        step = _decode(f"{source}: step {number + 1} of the sweep", changed)
        label = workload.sweep.key.rpartition(".")[2]
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        steps.append(Step(label, float(value) if plain else float(number), step))
    return Plan(name, workload, steps)


def _read(where: str) -> tuple[str, str, dict[str, Any]]:
    """(name, source, tables) of a workload. Raises BadWorkload, OSError."""
    path = Path(where)
    if "/" not in where and not path.suffix and not path.is_file():
        found = shipped.find(where)
        if found is None:
            names = ", ".join(shipped.names())
            raise BadWorkload(f"{where}: no such file, and no shipped workload: {names}")
        path = found
    most = _MOST_RESULT if path.suffix == ".json" else _MOST_FILE
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise BadWorkload(f"{where}: a workload has {most} bytes at most")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadWorkload(f"{where}: not UTF-8 at byte {error.start}") from None
    if path.suffix in (".yaml", ".yml"):
        try:
            return path.stem, where, openmessaging.tables(text)
        except ValueError as error:
            raise BadWorkload(f"{where}: {error}") from None
    if path.suffix == ".json":
        return path.stem, where, _of_result(where, text)
    try:
        return path.stem, where, tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadWorkload(f"{where}: no TOML: {error}") from None


def _of_result(where: str, text: str) -> dict[str, Any]:
    """The workload in a file of results. Raises BadWorkload."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any]).get("workload")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadWorkload(f"{where}: no result: {error}") from None
    if not isinstance(found, dict):
        raise BadWorkload(f"{where}: a result with the key `workload` is wanted")
    return {name: value for name, value in found.items() if value is not None}


def _decode(source: str, raw: Mapping[str, Any]) -> Workload:
    try:
        return msgspec.convert(raw, Workload, dec_hook=convert)
    except (msgspec.ValidationError, OverflowError) as error:
        parts = _PLACE.match(str(error))
        assert parts is not None
        place = (parts["place"] or "$").removeprefix("$").removeprefix(".")
        where = f"{source}: {place}" if place else source
        what = parts["what"].replace("Object contains unknown field", "there is no key")
        raise BadWorkload(f"{where}: {what}") from None


def _change(raw: dict[str, Any], change: str) -> None:
    """Sets a key by KEY=VALUE; the value is TOML's, or plain text. Raises BadWorkload."""
    key, sign, text = change.partition("=")
    if not sign:
        raise BadWorkload(f"--set {change}: KEY=VALUE is wanted, as producers.rate=1000")
    try:
        value = tomllib.loads(f"value = {text}\n")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text
    _put("--set", raw, key.strip(), value)


def _put(source: str, raw: dict[str, Any], key: str, value: object) -> None:
    """Sets the key `a.b` in nested tables. Raises BadWorkload."""
    *tables, last = key.split(".")
    here: Any = raw
    for table in tables:
        here = here.setdefault(table, {})
        if not isinstance(here, dict):
            raise BadWorkload(f"{source}: {key}: {table} is no table")
    here[last] = value


def plain(workload: Workload) -> dict[str, Any]:
    """The whole workload as values of JSON, from which it can be run again."""
    found: dict[str, Any] = msgspec.to_builtins(workload, enc_hook=_plain)
    return found


def _plain(value: object) -> object:
    if isinstance(value, float):
        return float(value)
    return int(value) if isinstance(value, int) else str(value)
