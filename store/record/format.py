"""The record of one message in the commit log, and the end-of-file record.

A producer encodes a record; append fills in queue offset, physical offset and store time. All
readers of the log read it. Integers are big-endian. RocketMQ: `MessageExtEncoder`,
`MessageDecoder`, `CommitLog.checkMessageAndReturnSize`. The fixed part of version 1 with IPv4
hosts:

======  ====  ====  =========================  ==================================================
offset  size  type  field                      meaning
======  ====  ====  =========================  ==================================================
0       4     i32   totalSize                  bytes of the whole record, this field included
4       4     u32   magic                      0xDAA320A7 version 1, 0xDAA320AB version 2
8       4     i32   bodyCRC                    CRC-32 of the body & 0x7FFFFFFF
12      4     i32   queueId                    queue of the topic
16      4     i32   flag                       set by the application, without meaning here
20      8     i64   queueOffset                index in the queue; 0 for prepared and rollback
28      8     i64   physicalOffset             address of this record in the log
36      4     i32   sysFlag                    bits, see SYS_*
40      8     i64   bornTimestamp              the client's time, epoch ms
48      8     host  bornHost                   4 bytes of address (16 with SYS_BORN_V6), i32 port
56      8     i64   storeTimestamp             time of the append, epoch ms
64      8     host  storeHost                  4 bytes of address (16 with SYS_STORE_V6), i32 port
72      4     i32   reconsumeTimes             how often consuming it failed
76      8     i64   preparedTransactionOffset  address of the half message, for commit and rollback
84      4     i32   bodyLength                 bytes of the body that follows
======  ====  ====  =========================  ==================================================

The fields behind an IPv6 host lie 12 bytes further. Behind the fixed part follow the body, the
topic's length and the topic, the properties' length (i16) and the properties. The topic's length is
an i8, or an i16 in version 2, which is for topics above 127 bytes.

The end-of-file record fills a file into which the next record does not fit. It has an i32, the
bytes to the end of the file (at least 8, these included), and the u32 magic 0xCBD43194. The bytes
behind are unspecified. A record of length L is written only if L + 8 bytes are left.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import msgspec

from ..errors import Corrupt, IllegalMessage
from ..status import PutMessageStatus
from .ids import LOCALHOST, Host, encode_offset_message_id
from .javahash import tags_code
from .properties import (
    CRC32,
    CRC_PAIR_BYTES,
    TAGS,
    check_properties_size,
    decode_properties,
    encode_crc,
    reserve_crc,
    trailing_crc,
)

ReadBuffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194

#: Field -> (offset, size) of the fixed part of version 1 with IPv4 hosts.
LAYOUT: Final[dict[str, tuple[int, int]]] = {
    "totalSize": (0, 4),
    "magic": (4, 4),
    "bodyCRC": (8, 4),
    "queueId": (12, 4),
    "flag": (16, 4),
    "queueOffset": (20, 8),
    "physicalOffset": (28, 8),
    "sysFlag": (36, 4),
    "bornTimestamp": (40, 8),
    "bornHost": (48, 8),
    "storeTimestamp": (56, 8),
    "storeHost": (64, 8),
    "reconsumeTimes": (72, 4),
    "preparedTransactionOffset": (76, 8),
    "bodyLength": (84, 4),
}

SYS_COMPRESSED: Final = 0x1
SYS_MULTI_TAGS: Final = 0x2
SYS_TRANSACTION: Final = 0xC
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
SYS_BORN_V6: Final = 0x10
SYS_STORE_V6: Final = 0x20
SYS_COMPRESSION_TYPE: Final = 0x700

CRC_MASK: Final = 0x7FFF_FFFF
BLANK_BYTES: Final = 8
MAX_MESSAGE_SIZE: Final = 4 * 1024 * 1024
#: A record may have so many bytes more than the largest body (`MessageExtEncoder`: maxMessageSize
#: + 64 KiB).
RECORD_MARGIN: Final = 65_536
MAX_V1_TOPIC_BYTES: Final = 127
MAX_TOPIC_BYTES: Final = 255

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_START: Final = struct.Struct(">iI")
#: The fixed part for each combination of host sizes, chosen by the two bits of sysFlag.
_FIXED: Final = {
    born | store: struct.Struct(f">iIiiiqqiq{16 if born else 4}siq{16 if store else 4}siiqi")
    for born in (0, SYS_BORN_V6)
    for store in (0, SYS_STORE_V6)
}
_V6_BITS: Final = SYS_BORN_V6 | SYS_STORE_V6
#: The bytes of a version 1 record with IPv4 hosts, without body, topic and properties.
MIN_RECORD_BYTES: Final = _FIXED[0].size + 1 + 2
assert _FIXED[0].size == sum(LAYOUT["bodyLength"]) == 88
assert MIN_RECORD_BYTES == 91


class Record(msgspec.Struct, frozen=True):
    """One decoded record. Times are epoch ms, sizes bytes; `queue_offset` is an index in the queue,
    the other offsets are addresses in the log.
    """

    total_size: int
    version: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: Host
    store_timestamp: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    #: The property string as stored. The order of its pairs has no meaning.
    properties_raw: bytes
    properties: dict[str, str]

    @property
    def transaction_type(self) -> int:
        """One of the TRANSACTION_* values."""
        return self.sys_flag & SYS_TRANSACTION

    @property
    def tags(self) -> str | None:
        """The TAGS property, as one string."""
        return self.properties.get(TAGS)

    @property
    def offset_message_id(self) -> str:
        """The offset message id, made from store host and physical offset."""
        return encode_offset_message_id(self.store_host, self.physical_offset)

    @property
    def tags_code(self) -> int:
        """The hash of the tags. The queue entry of a delayed message has its delivery time
        instead.
        """
        return tags_code(self.tags)


def masked_crc32(data: bytes | bytearray | memoryview) -> int:
    """CRC-32 without its top bit, as RocketMQ stores it (`UtilAll.crc32`); 0 for empty `data`."""
    return zlib.crc32(data) & CRC_MASK


def encode_record(
    topic: bytes,
    body: bytes | bytearray | memoryview,
    properties: bytes = b"",
    *,
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: Host = LOCALHOST,
    store_timestamp: int = 0,
    store_host: Host = LOCALHOST,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    version: int | None = None,
    record_crc: bool = False,
    max_message_size: int = MAX_MESSAGE_SIZE,
) -> bytes:
    """The bytes of a record (RocketMQ: `MessageExtEncoder.encode`).

    `topic` comes from `names.validate_topic`, `properties` from `properties.encode_properties`. If
    `version` is None it follows from the topic's length. The IPv6 bits of `sys_flag` follow from
    the hosts. `record_crc` adds the `__CRC32#` pair for the returned bytes; append computes it
    again once it has filled in its fields. Raises IllegalMessage with the status that RocketMQ
    gives for the same message.
    """
    version = version or (1 if len(topic) <= MAX_V1_TOPIC_BYTES else 2)
    if not 0 < len(topic) <= (MAX_V1_TOPIC_BYTES if version == 1 else MAX_TOPIC_BYTES):
        _illegal(f"a topic of {len(topic)} bytes does not fit a record of version {version}")
    if len(body) > max_message_size:
        _illegal(f"the body has {len(body)} bytes; at most {max_message_size} are allowed")
    if record_crc:
        properties = reserve_crc(properties)
    check_properties_size(len(properties))
    sys_flag &= ~_V6_BITS
    sys_flag |= SYS_BORN_V6 * (len(born_host.address) == 16)
    sys_flag |= SYS_STORE_V6 * (len(store_host.address) == 16)
    fixed = _FIXED[sys_flag & _V6_BITS]
    total = fixed.size + len(body) + version + len(topic) + 2 + len(properties)
    if total > max_message_size + RECORD_MARGIN:
        _illegal(
            f"the record has {total} bytes; at most {max_message_size + RECORD_MARGIN} are allowed"
        )
    try:
        head = fixed.pack(
            total, MAGIC_V1 if version == 1 else MAGIC_V2, masked_crc32(body), queue_id, flag,
            queue_offset, physical_offset, sys_flag, born_timestamp, *born_host,
            store_timestamp, *store_host, reconsume_times, prepared_transaction_offset, len(body),
        )  # fmt: skip
    except struct.error as e:
        _illegal(f"a number does not fit its field in the record: {e}")
    length = len(topic).to_bytes(version, "big")
    tail = _I16.pack(len(properties))
    record = bytearray().join((head, body, length, topic, tail, properties))
    if record_crc:
        _write_record_crc(record, 0, total)
    return bytes(record)


def decode_record(
    buffer: ReadBuffer,
    position: int = 0,
    limit: int | None = None,
    *,
    path: str = "",
    base: int = 0,
    check_crc: bool = True,
) -> Record:
    """Decodes and checks the record at `position`, which must end at `limit` or before.

    The structure is always checked: the parts must fill totalSize exactly, ports must be 0 to
    65535, topic and properties UTF-8. `check_crc` also checks the body's CRC and, if the properties
    end in `__CRC32#`, the record's. Other values are not checked, because RocketMQ stores any.
    Copies no bytes outside `[position, limit)`, whatever lengths the record claims.

    Raises Corrupt (with `path`, and `base` + position as offset) if a check fails, also for an
    end-of-file record.
    """
    assert position >= 0, position
    limit = len(buffer) if limit is None else min(limit, len(buffer))
    try:
        head, spans = _split(buffer, position, limit)
        record = _build(buffer, head, spans)
        if check_crc:
            _check_crcs(buffer, position, record, spans.topic)
    except _Bad as e:
        raise Corrupt(path, base + e.position, e.why) from None
    return record


class _Bad(Exception):
    def __init__(self, position: int, why: str) -> None:
        self.position = position
        self.why = why


class _Spans(NamedTuple):
    """The version of a record, the positions in the buffer of its topic and properties, and its
    end.
    """

    version: int
    topic: int
    properties: int
    end: int


def encode_blank(remaining: int) -> bytes:
    """The first bytes of an end-of-file record that fills its file's `remaining` bytes."""
    return _START.pack(remaining, MAGIC_BLANK)


def is_blank(buffer: ReadBuffer, position: int, remaining: int) -> bool:
    """Whether an end-of-file record at `position` fills its file's `remaining` bytes exactly."""
    if remaining < BLANK_BYTES or position + BLANK_BYTES > len(buffer):
        return False
    return _START.unpack_from(buffer, position) == (remaining, MAGIC_BLANK)


def _split(buffer: ReadBuffer, position: int, limit: int) -> tuple[tuple[Any, ...], _Spans]:
    """The fixed fields and the spans of a record. Raises _Bad unless the lengths agree and the
    record ends at `limit` or before.
    """
    if limit - position < MIN_RECORD_BYTES:
        raise _Bad(
            position, f"{limit - position} bytes left, a record has at least {MIN_RECORD_BYTES}"
        )
    total, magic = _START.unpack_from(buffer, position)
    if magic == MAGIC_BLANK:
        raise _Bad(position, "an end-of-file record where a message was expected")
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise _Bad(position + 4, f"magic 0x{magic:08X} is not that of a record")
    version = 1 if magic == MAGIC_V1 else 2
    fixed = _FIXED[_I32.unpack_from(buffer, position + 36)[0] & _V6_BITS]
    end = position + total
    if total < fixed.size + version + 2 or end > limit:
        raise _Bad(position, f"totalSize {total} with {limit - position} bytes left")
    head = fixed.unpack_from(buffer, position)
    body_at = position + fixed.size
    size = head[-1]
    if not 0 <= size <= end - body_at - version - 2:
        raise _Bad(body_at - 4, f"bodyLength {size} in a record of {total} bytes")
    topic_at = body_at + size + version
    size = int.from_bytes(buffer[topic_at - version : topic_at], "big", signed=True)
    if not 0 <= size <= end - topic_at - 2:
        raise _Bad(topic_at - version, f"topicLength {size} in a record of {total} bytes")
    properties_at = topic_at + size + 2
    (size,) = _I16.unpack_from(buffer, properties_at - 2)
    if size != end - properties_at:
        raise _Bad(
            properties_at - 2, f"propertiesLength {size} with {end - properties_at} bytes left"
        )
    return head, _Spans(version, topic_at, properties_at, end)


def _build(buffer: ReadBuffer, head: tuple[Any, ...], spans: _Spans) -> Record:
    version, topic_at, properties_at, end = spans
    if not (0 <= head[10] <= 65535 and 0 <= head[13] <= 65535):
        raise _Bad(end - head[0], f"hosts have ports {head[10]} and {head[13]}")
    body_end = topic_at - version
    raw = bytes(buffer[properties_at:end])
    at = topic_at
    try:
        topic = str(bytes(buffer[topic_at : properties_at - 2]), "utf-8")
        at = properties_at
        properties = decode_properties(raw)
    except UnicodeDecodeError as e:
        raise _Bad(at + e.start, "topic or properties are not UTF-8") from None
    body = bytes(buffer[body_end - head[16] : body_end])
    fields: tuple[Any, ...] = (
        head[0], version, *head[2:9], Host(*head[9:11]), head[11], Host(*head[12:14]), *head[14:16],
        body, topic, raw, properties,
    )  # fmt: skip
    return Record(*fields)


def _check_crcs(buffer: ReadBuffer, position: int, record: Record, topic_at: int) -> None:
    crc = masked_crc32(record.body)
    if crc != record.body_crc:
        why = f"bodyCRC {record.body_crc & 0xFFFFFFFF:08x}, the body has {crc:08x}"
        raise _Bad(topic_at - record.version - len(record.body), why)
    stored = trailing_crc(record.properties_raw)
    if stored is not None:
        crc = _record_crc(buffer, position, record.total_size)
        if crc != stored:
            raise _Bad(position, f"{CRC32} is {stored:08x}, the record has {crc:08x}")


def _record_crc(buffer: ReadBuffer, position: int, total: int) -> int:
    return masked_crc32(buffer[position : position + total - CRC_PAIR_BYTES])


def _write_record_crc(
    buffer: bytearray | memoryview | mmap.mmap, position: int, total: int
) -> None:
    end = position + total
    buffer[end - CRC_PAIR_BYTES : end] = encode_crc(_record_crc(buffer, position, total))


def _illegal(why: str) -> NoReturn:
    raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)
