"""Java's arithmetic where it reaches the disk: string hashes and the parsing of numbers.

Consume-queue entries hold the hash of a message's tags and index entries the hash of `topic#key`,
both as `java.lang.String.hashCode` computes them. Compiled code has its own versions; these serve
tools and tests.
"""

from __future__ import annotations

import re

_INT = re.compile(r"[+-]?\d+")


def java_string_hash(text: str) -> int:
    """`String.hashCode()` as a signed 32-bit integer.

    Runs over UTF-16 code units, so a character outside the basic plane counts as two.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


def index_key_hash(topic: str, key: str) -> int:
    """Hash of an index entry, 0 to 2**31 - 1 (RocketMQ: `IndexFile.indexKeyHashMethod`).

    `Math.abs(-2**31)` stays negative in Java; RocketMQ stores 0 for it.
    """
    h = java_string_hash(f"{topic}#{key}")
    return 0 if h == -0x8000_0000 else abs(h)


def tags_code(tags: str | None) -> int:
    """The tagsCode of a consume-queue entry for `tags`: the hash, or 0 without tags.

    The signed value is stored as an i64 (`MessageExtBrokerInner.tagsString2tagsCode`). The whole
    string is hashed, also where a client joined several tags with `||`.
    """
    return java_string_hash(tags) if tags else 0


def java_parse_int(text: str) -> int:
    """`Integer.parseInt(text)`; raises ValueError where Java throws NumberFormatException."""
    # The length is looked at first: int() of a long digit string takes quadratic time.
    if len(text) > 64 or not _INT.fullmatch(text):
        raise ValueError(f"not a Java int: {text[:64]!r}")
    value = int(text)
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise ValueError(f"outside a Java int: {text!r}")
    return value
