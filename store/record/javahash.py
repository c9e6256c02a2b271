"""Java's arithmetic as far as RocketMQ's files depend on it: string hashes, and parsing of numbers.

Consume-queue entries hold the hash of a message's tags. Index entries hold the hash of `topic#key`.
Both are those of `java.lang.String.hashCode`. The kernels have compiled versions in `properties.h`;
tests hold the two equal.
"""

from __future__ import annotations

import re

_INT = re.compile(r"[+-]?\d+")


def java_string_hash(text: str) -> int:
    """`String.hashCode()` as a signed 32-bit integer.

    It is computed over UTF-16 code units: a character outside the basic plane counts as two.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


def index_key_hash(topic: str, key: str) -> int:
    """The hash in the index entry of a key, 0 to 2**31 - 1 (`IndexFile.indexKeyHashMethod`).

    `Math.abs(-2**31)` is negative in Java; RocketMQ stores 0 for it.
    """
    h = java_string_hash(f"{topic}#{key}")
    return 0 if h == -0x8000_0000 else abs(h)


def tags_code(tags: str | None) -> int:
    """The tagsCode of a consume-queue entry: the hash of `tags`, or 0 without tags.

    The signed value is stored as an i64 (`MessageExtBrokerInner.tagsString2tagsCode`). The hash is
    that of the whole string, also if a client joined several tags with `||`.
    """
    return java_string_hash(tags) if tags else 0


def java_parse_int(text: str) -> int:
    """`Integer.parseInt(text)`. Raises ValueError for texts for which Java throws
    NumberFormatException, and for any longer than 64 characters.
    """
    # The length is checked first: int() of a long digit string takes quadratic time.
    if len(text) > 64 or not _INT.fullmatch(text):
        raise ValueError(f"not a Java int: {text[:64]!r}")
    value = int(text)
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise ValueError(f"outside a Java int: {text!r}")
    return value
