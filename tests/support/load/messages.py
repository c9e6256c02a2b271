"""What the messages of loads are: each a function of its kind, its producer and its number, so that
whoever finds one in a store knows what it must be.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, NamedTuple

from silomq import Message

if TYPE_CHECKING:
    from collections.abc import Callable

#: Messages of a load that follow each other go to one queue in groups of this many.
GROUP = 9
LONG_AGO_MS = 1_700_000_000_000
WORDS = ("plain", "größe", "заказ", "注文", "🔔", "a/b", "x=y", "ß")
SHARED_BY = 40  # messages with the same key, at most 64: what RocketMQ gives for one query
_SIZES = (10, 10, 60, 60, 200, 200, 200, 600, 600, 1_500)
_PAGES = (0, 10, 100, 300, 300, 700, 700, 3000, 9000)
_BLOCK = random.Random(3).randbytes(1 << 17)


class Content(NamedTuple):
    """What a producer is given to send. Without `born` the producer sets the time of birth."""

    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: dict[str, str] | None = None
    flag: int = 0
    born: int | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def stored_properties(self) -> dict[str, str]:
        """The properties of the stored message, but for its UNIQ_KEY."""
        found = dict(self.properties or {})
        if self.tags is not None:
            found["TAGS"] = self.tags
        if self.keys:
            found["KEYS"] = " ".join(self.keys)
        return found

    def message(self) -> Message:
        return Message(
            self.body, self.tags, self.keys or None, self.properties, self.flag, self.born
        )


def body_of(producer: int, sequence: int) -> bytes:
    """A body that says whose it is, of a length that varies with the sequence number."""
    return b"%d:%d:" % (producer, sequence) + b"x" * (sequence * 37 % 400)


def owner_of(body: bytes) -> tuple[int, int]:
    """Producer and sequence number of what `body_of` made, which must be whole."""
    producer, sequence, _ = body.split(b":")
    found = int(producer), int(sequence)
    assert body == body_of(*found)
    return found


def _short(producer: int, sequence: int) -> Content:
    """Short bodies, two keys."""
    tags = (None, "sync", None, "batch")[sequence // GROUP % 4]
    return Content(body_of(producer, sequence), tags, (f"p{producer}", f"s{sequence}"))


def _keyed(producer: int, sequence: int) -> Content:
    """Short bodies, two keys of which one is shared by many."""
    return Content(body_of(producer, sequence), "a", ("all", f"p{producer}n{sequence}"))


def _pages(producer: int, sequence: int) -> Content:
    """Bodies that do not repeat themselves, many longer than a page of memory."""
    rng = random.Random(producer << 32 | sequence)
    body = b"%d:%d:" % (producer, sequence) + rng.randbytes(rng.choice(_PAGES))
    return Content(body, "T", (f"p{producer}", f"s{sequence}"))


def _every_field(producer: int, sequence: int) -> Content:
    """Everything that a producer may set, in all combinations; text of many scripts."""
    size = _SIZES[sequence % len(_SIZES)]
    if sequence % 1_009 == 0:
        size = 30_000
    size = sequence * 7919 % size
    at = sequence * 31 % 65_536
    word = WORDS[sequence % 7 % len(WORDS)]
    keys: tuple[str, ...] = ()
    if sequence % 11:
        keys = (f"m-{producer}-{sequence}", f"{word}-{producer}-{sequence // SHARED_BY}")
    return Content(
        b"%d:%d:" % (producer, sequence) + _BLOCK[at : at + size],
        tags=WORDS[sequence % len(WORDS)] if sequence % 3 else None,
        keys=keys,
        properties={f"colour {word}": f"värde {sequence}"} if sequence % 5 == 0 else {},
        flag=sequence * 2654435761 % (1 << 31) if sequence % 4 == 0 else 0,
        born=LONG_AGO_MS + sequence if sequence % 6 == 0 else None,
    )


def _long(producer: int, sequence: int) -> Content:
    """60 kB: few of them fill a disk."""
    return Content(b"%d:%d:" % (producer, sequence) + b"y" * 60_000)


#: The kinds of messages by their names.
KINDS: dict[str, Callable[[int, int], Content]] = {
    "short": _short,
    "keyed": _keyed,
    "pages": _pages,
    "long": _long,
    "every field": _every_field,
}
