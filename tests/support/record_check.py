"""RocketMQ's own judgement of a piece of the log, outcome by outcome.

`decode_record` says what is in a record and refuses what is not one. `check_record` answers instead
what RocketMQ's recovery and reput would do at the same place
(`CommitLog.checkMessageAndReturnSize`, 5.3), so that a store ends here where it would end there.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from silomq.store.names import SCHEDULE_TOPIC
from silomq.store.record.format import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    SYS_BORN_V6,
    SYS_STORE_V6,
    ReadBuffer,
    masked_crc32,
)
from silomq.store.record.javahash import java_parse_int
from silomq.store.record.properties import (
    CRC32,
    CRC_PAIR_BYTES,
    DELAY,
    decode_crc,
    decode_properties,
)


class Check(NamedTuple):
    """`size` and `ok` as in RocketMQ's DispatchRequest; `why` is ours and empty when ok.

    size > 0, ok      a valid record
    0, ok             an end-of-file record: go to the next file
    size > 0, not ok  lengths contradict totalSize: recovery stops, reput skips `size` bytes
    -1, not ok        stop
    """

    size: int
    ok: bool
    why: str = ""


STOP: Final = -1
#: The property with which RocketMQ finds records that it has twice.
DUP_INFO: Final = "DUP_INFO"


def check_record(
    buffer: ReadBuffer,
    position: int = 0,
    limit: int | None = None,
    *,
    check_crc: bool = True,
    read_body: bool = True,
    check_dup: bool = False,
    force_record_crc: bool = False,
) -> Check:
    """Judge what stands at `position`, `limit` being the readable end of the file; raises nothing.

    `check_crc` is checkCRCOnRecover, `check_dup` duplicationEnable, `force_record_crc`
    forceVerifyPropCRC (the body's CRC is then not looked at). One difference: a negative body or
    properties length never fits, while RocketMQ takes it for 0; no writer produces one.
    """
    limit = len(buffer) if limit is None else min(limit, len(buffer))
    scan = _Scan(buffer, position, limit)
    try:
        if limit - position <= 4:
            return Check(STOP, ok=False, why=f"{limit - position} bytes left")
        total = scan.number(">i")
        if limit - scan.at < total - 4:
            return Check(STOP, ok=False, why=f"totalSize {total}, {limit - position} bytes left")
        magic = scan.number(">I")
        if magic == MAGIC_BLANK:
            return Check(0, ok=True)
        if magic not in (MAGIC_V1, MAGIC_V2):
            return Check(STOP, ok=False, why=f"magic 0x{magic:08X}")
        body_crc_wanted = check_crc and not force_record_crc and read_body
        scan.total = total
        negative, properties = _walk(scan, magic, read_body=read_body, check_crc=body_crc_wanted)
        if properties is not None and check_dup and not _is_dup_info(properties.get(DUP_INFO)):
            return Check(STOP, ok=False, why=f"{DUP_INFO} is not a_b")
        if force_record_crc:
            _check_record_crc(buffer, position, total, properties or {})
        if negative or scan.at - position != total:
            return Check(
                total, ok=False, why=f"lengths add up to {scan.at - position}, totalSize is {total}"
            )
    except (ValueError, struct.error) as e:
        # Java: any exception inside (buffer underflow, number format) ends the scan.
        return Check(STOP, ok=False, why=str(e))
    return Check(total, ok=True)


class _Scan:
    """A read position that never passes `limit`."""

    def __init__(self, buffer: ReadBuffer, at: int, limit: int) -> None:
        self.buffer = buffer
        self.at = at
        self.limit = limit
        self.total = 0

    def skip(self, size: int) -> int:
        """Go `size` bytes on and return where they began."""
        if not 0 <= size <= self.limit - self.at:
            raise ValueError(f"{size} bytes at position {self.at}, {self.limit - self.at} left")
        self.at += size
        return self.at - size

    def number(self, form: str) -> int:
        at = self.skip(struct.calcsize(form))
        value: int = struct.unpack_from(form, self.buffer, at)[0]
        return value

    def take(self, size: int) -> bytes:
        """The next `size` bytes; Java reads them into a buffer of totalSize bytes."""
        if size > self.total:
            raise ValueError(f"{size} bytes in a record of {self.total}")
        at = self.skip(size)
        return bytes(self.buffer[at : at + size])


def _walk(
    scan: _Scan, magic: int, *, read_body: bool, check_crc: bool
) -> tuple[bool, dict[str, str] | None]:
    """Go over a record from behind its magic to its end.

    Returns whether a length was negative, and the properties (None if there are none).
    """
    if scan.total < 0:
        raise ValueError(f"totalSize {scan.total}")
    crc = scan.number(">i")
    scan.skip(4 + 4 + 8 + 8)
    sys_flag = scan.number(">i")
    scan.skip(8 + (20 if sys_flag & SYS_BORN_V6 else 8))
    scan.skip(8 + (20 if sys_flag & SYS_STORE_V6 else 8) + 4 + 8)
    body_length = scan.number(">i")
    if body_length > 0:
        if not read_body:
            scan.skip(body_length)
        elif masked_crc32(scan.take(body_length)) != crc and check_crc:
            raise ValueError("bodyCRC differs from that of the body")
    topic_length = scan.number(">b" if magic == MAGIC_V1 else ">h")
    topic = str(scan.take(topic_length), "utf-8", "replace")
    properties_length = scan.number(">h")
    if properties_length <= 0:
        return body_length < 0 or properties_length < 0, None
    properties = decode_properties(scan.take(properties_length), "replace")
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        java_parse_int(properties[DELAY])
    return body_length < 0, properties


def _is_dup_info(value: str | None) -> bool:
    if value is None:
        return False
    parts = value.split("_")
    while parts and not parts[-1]:
        # Java's split drops empty strings at the end.
        parts.pop()
    return len(parts) == 2


def _check_record_crc(
    buffer: ReadBuffer, position: int, total: int, properties: dict[str, str]
) -> None:
    stored = decode_crc(properties.get(CRC32, ""))
    if total < CRC_PAIR_BYTES:
        raise ValueError(f"totalSize {total}")
    crc = masked_crc32(buffer[position : position + total - CRC_PAIR_BYTES])
    if crc != stored:
        raise ValueError(f"{CRC32} is {stored:08x}, the record has {crc:08x}")
