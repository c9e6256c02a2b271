"""What a broker registers: its topics, in JSON or in the compressed form of RocketMQ 4."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import msgspec

from ..broker.wire.codes import MAPPINGS_VERSION
from ..store.config import fastjson

_WORD: Final = struct.Struct(">i")
#: A compressed body may not become longer than this (bytes): RocketMQ's frames are at most 16 MiB.
_MOST_INFLATED: Final = 64 << 20
#: A topic's text: name, readQueueNums, writeQueueNums, perm, and more that is not needed.
_TOPIC_WORDS: Final = 4


class BadBody(ValueError):
    """A body that is no registration; the text says why."""


class DataVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a broker's topics. It changes with every change of a topic."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0


class TopicConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A topic of a broker."""

    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_sys_flag: int = 0


class _Wrapper(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class _Body(msgspec.Struct, rename="camel"):
    topic_config_serialize_wrapper: _Wrapper | None = None


class Topics(msgspec.Struct, frozen=True):
    """The topics that a broker registers, and their version."""

    version: DataVersion = msgspec.field(default_factory=DataVersion)
    table: dict[str, TopicConfig] = {}


def decode_topics(body: bytes, *, compressed: bool, version: int, crc: int) -> Topics:
    """The topics in the body of REGISTER_BROKER, none if it is empty. `version` is the broker's,
    and `crc` its CRC-32 of the body (0: not given). Raises BadBody.
    """
    if not body:
        return Topics()
    if crc and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise BadBody("crc32 not match")
    try:
        return _inflated(body, version) if compressed else _plain(body)
    except (ValueError, RecursionError, struct.error, zlib.error) as error:
        raise BadBody(f"the body is no registration: {error}") from error


def decode_version(body: bytes) -> DataVersion:
    """The DataVersion in a body, zeros if it is empty. Raises BadBody."""
    try:
        return _read(body, DataVersion) if body else DataVersion()
    except (ValueError, RecursionError) as error:
        raise BadBody(f"the body is no DataVersion: {error}") from error


def _plain(body: bytes) -> Topics:
    wrapper = _read(body, _Body).topic_config_serialize_wrapper or _Wrapper()
    return Topics(wrapper.data_version, wrapper.topic_config_table)


def _read(body: bytes, kind: type[Any]) -> Any:
    """A struct from JSON, or from fastjson's dialect of it. Raises ValueError."""
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(fastjson.loads(body.decode()), kind, strict=False)


def _inflated(body: bytes, version: int) -> Topics:
    inflater = zlib.decompressobj()
    data = inflater.decompress(body, _MOST_INFLATED)
    if inflater.unconsumed_tail:
        raise ValueError(f"more than {_MOST_INFLATED} bytes when it is inflated")
    text, at = _take(data, 0)
    data_version = _read(text, DataVersion)
    (count,) = _WORD.unpack_from(data, at)
    at += _WORD.size
    table = {}
    for _ in range(count):
        text, at = _take(data, at)
        name, *numbers = text.decode().split(" ")[:_TOPIC_WORDS]
        read, write, perm = (int(number) for number in numbers)
        table[name] = TopicConfig(read, write, perm)
    _take(data, at)  # the filter servers of RocketMQ 4, which nothing uses
    if version >= MAPPINGS_VERSION and not inflater.eof:
        raise ValueError("it ends too early")
    return Topics(data_version, table)


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    """A text behind its length, and the position behind it."""
    (length,) = _WORD.unpack_from(data, at)
    start = at + _WORD.size
    if not 0 <= length <= len(data) - start:
        raise ValueError(f"{length} bytes at {start} of {len(data)}")
    return data[start : start + length], start + length
