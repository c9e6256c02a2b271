"""Hosts in records, and the two kinds of message ids.

Offset message id (RocketMQ: `MessageDecoder.createMessageId`): store host and physical offset in
hex, 32 characters with an IPv4 host, 56 with IPv6. It is computed from a record, never stored.

UNIQ_KEY (RocketMQ: `MessageClientIDSetter`): 16 bytes in upper-case hex. The client makes it and
stores it as a property, and the index has the message under it:

======  ====  =====  ===========  ====================================================
offset  size  type   field        meaning
======  ====  =====  ===========  ====================================================
0       4     bytes  address      IPv4 address of the client
4       2     u16    pid          low half of the process id
6       4     u32    incarnation  class-loader hash in Java, random here
10      4     u32    timeDiff     milliseconds since the first of the month, local time
14      2     u16    counter      one counter for all keys of the process
======  ====  =====  ===========  ====================================================
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final, NamedTuple

LAYOUT: Final = {
    "address": (0, 4),
    "pid": (4, 2),
    "incarnation": (6, 4),
    "timeDiff": (10, 4),
    "counter": (14, 2),
}


#: The first bytes of an IPv6 address that stands for an IPv4 address (RFC 4291, 2.5.5.2).
_MAPPED_IPV4: Final = bytes(10) + b"\xff\xff"


class Host(NamedTuple):
    """An address of 4 (IPv4) or 16 (IPv6) bytes and a port, as records hold them."""

    address: bytes
    port: int

    @classmethod
    def of(cls, address: str, port: int) -> Host:
        """The host of a numeric address, such as `"127.0.0.1"` or `"fd00::1"`, and a port.

        An IPv4 address that is written as IPv6 (`"::ffff:127.0.0.1"`) counts as IPv4, because Java
        makes it one: RocketMQ would compute another id for the message. Raises ValueError for
        anything but a numeric address with a port from 0 to 65535; a name is never looked up.
        """
        if not 0 <= port <= 65535:
            raise ValueError(f"not a host: port {port}, a port is 0 to 65535")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            packed = socket.inet_pton(family, address)
        except (OSError, ValueError) as e:
            raise ValueError(f"not a numeric address: {address[:80]!a}") from e
        return cls(packed.removeprefix(_MAPPED_IPV4), port)

    @classmethod
    def parse(cls, text: str) -> Host:
        """The host of a text such as `"127.0.0.1:10911"` or `"[::1]:10911"`. It never asks a name
        server. Raises ValueError for anything but a numeric address with a port.
        """
        address, colon, port = text.rpartition(":")
        bracketed = address.startswith("[") and address.endswith("]")
        if (
            not colon
            or not (port.isascii() and port.isdigit() and len(port) <= 6)
            or (":" in address) != bracketed
        ):
            raise ValueError(f"not a host: {text[:80]!a}; write ADDRESS:PORT or [IPV6]:PORT")
        return cls.of(address[1:-1] if bracketed else address, int(port))

    def packed(self) -> bytes:
        """The 8 or 20 bytes that records hold."""
        return self.address + struct.pack(">i", self.port)

    @classmethod
    def unpack(cls, data: bytes) -> Host:
        """The host of 8 or 20 `packed` bytes; the length is not checked."""
        return cls(data[:-4], int.from_bytes(data[-4:], "big"))

    def __str__(self) -> str:
        if len(self.address) == 16:
            return f"[{socket.inet_ntop(socket.AF_INET6, self.address)}]:{self.port}"
        return f"{socket.inet_ntop(socket.AF_INET, self.address)}:{self.port}"


LOCALHOST: Final = Host(bytes((127, 0, 0, 1)), 0)


def encode_offset_message_id(store_host: Host, physical_offset: int) -> str:
    """The offset message id of the record at `physical_offset`: 32 or 56 upper-case hex digits."""
    return (store_host.address + struct.pack(">iq", store_host.port, physical_offset)).hex().upper()


def decode_offset_message_id(message_id: str) -> tuple[Host, int]:
    """The store host and physical offset in an offset message id. Raises ValueError if it is not
    one.
    """
    if len(message_id) not in (32, 56) or not _is_hex(message_id):
        raise ValueError(f"a message id is 32 or 56 hex digits, not {message_id[:80]!a}")
    raw = bytes.fromhex(message_id)
    port, offset = struct.unpack(">iq", raw[-12:])
    if not 0 <= port <= 65535 or offset < 0:
        raise ValueError(f"message id {message_id} has port {port} and offset {offset}")
    return Host(raw[:-12], port), offset


def month_bounds_ms(at_ms: int) -> tuple[int, int]:
    """The start of the local month in which `at_ms` lies, and of the next month; epoch ms."""
    t = time.localtime(at_ms // 1000)
    # mktime normalises month 13, and finds out by itself (-1) whether daylight saving applies.
    start, end = (
        int(time.mktime((t.tm_year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000
        for month in (t.tm_mon, t.tm_mon + 1)
    )
    return start, end


def local_address() -> bytes:
    """An IPv4 address of this machine, 4 bytes. Without a network, bytes of the clock instead, as
    RocketMQ's `MessageClientIDSetter` does.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            # Connecting a datagram socket sends nothing; it only chooses the source address.
            s.connect(("192.0.2.1", 9))
            return socket.inet_aton(s.getsockname()[0])
    except OSError:
        return (_now_ms() & 0xFFFF_FFFF).to_bytes(4, "big")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_hex(text: str) -> bool:
    # bytes.fromhex() would also accept spaces between digits.
    return text.isascii() and text.isalnum() and all(c in "0123456789abcdefABCDEF" for c in text)
