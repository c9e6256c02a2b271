"""Packets between a store's processes, and between the registry and its clients.

A packet is one SOCK_SEQPACKET packet with one message (`shm/protocol/`) and up to eight
descriptors. Messages between the registry and its clients may be longer (`parts.py`). The message
is JSON, so that a person with strace can read it. The kernel keeps packets apart, and a packet is
received whole or not at all.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import time
from typing import Final, Protocol, TypeVar

import msgspec

MAX_PACKET: Final = 65536
MAX_FDS: Final = 8
_PATIENCE_S = 5.0

Message = TypeVar("Message")
Message_co = TypeVar("Message_co", covariant=True)


class Decoder(Protocol[Message_co]):
    """Decodes a packet into one of the expected messages, as msgspec.json.Decoder does."""

    def decode(self, packet: bytes, /) -> Message_co:
        """The message. Raises ValueError, RecursionError."""


class NotAMessage(ValueError):
    """A packet that is no JSON object, is too long, or has lost descriptors in the kernel."""


class Misfit(NotAMessage):
    """A packet of JSON that is none of the expected messages. `data` is the packet; `why` names
    the wrong field.
    """

    def __init__(self, data: bytes, why: str) -> None:
        super().__init__(f"not a message: {why}")
        self.data = data
        self.why = why


class DescriptorsLost(NotAMessage):
    """A packet whose descriptors are lost, some or all: too many came, or this process may not open
    more files. `message` is what they came with, None if that is no message.
    """

    def __init__(self, message: object) -> None:
        super().__init__(
            f"not a message: descriptors were cut off: more than {MAX_FDS} came, or this process "
            "has too many open files (see: ulimit -n)"
        )
        self.message = message


class TooLong(ValueError):
    """A message that is longer than a packet may be."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected, non-blocking sockets."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    return ends[0], ends[1]


def send(
    end: socket.socket, message: msgspec.Struct, fds: list[int] | tuple[int, ...] = ()
) -> None:
    """Sends one message. The descriptors are duplicated; the caller keeps its own.

    Raises OSError as sendmsg, TooLong.
    """
    data = msgspec.json.encode(message)
    if len(data) > MAX_PACKET:
        raise TooLong(f"a message of {len(data)} bytes: at most {MAX_PACKET} fit a packet")
    send_packet(end, data, fds)


def send_packet(end: socket.socket, data: bytes, fds: list[int] | tuple[int, ...] = ()) -> None:
    """Sends the packet of an encoded message. Raises OSError as sendmsg."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    end.sendmsg([data], rights)


def post(
    end: socket.socket, message: msgspec.Struct, fds: list[int] | tuple[int, ...] = ()
) -> None:
    """`send` that waits up to 5 s for room in the socket. It is used towards the supervisor, which
    reads its mail in each turn of its loop.

    Raises OSError as sendmsg, BlockingIOError when there is no room, TooLong.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            send(end, message, fds)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            room = select.poll()  # select.select takes no descriptor above 1023
            room.register(end, select.POLLOUT)
            room.poll(100)
        else:
            return


def receive(end: socket.socket, decoder: Decoder[Message]) -> tuple[Message | None, list[int]]:
    """One of the messages that `decoder` knows, and its descriptors, which are now the caller's;
    (None, []) when the other end is closed.

    Raises BlockingIOError when no packet has arrived (non-blocking sockets), and OSError as
    recvmsg. Raises NotAMessage, Misfit or DescriptorsLost for any other packet, and closes its
    descriptors.
    """
    space = socket.CMSG_SPACE(MAX_FDS * 4)
    data, ancillary, flags, _ = end.recvmsg(MAX_PACKET + 1, space, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) // 4 * 4])
    if not data and not fds:
        return None, []
    try:
        _check_whole(data, flags, decoder)
        return _decode(data, decoder), list(fds)
    except BaseException:
        close_all(list(fds))
        raise


def await_packet(end: socket.socket, deadline: float) -> None:
    """Waits until a packet has arrived, or the other end is closed. `deadline` is a monotonic time
    in seconds; raises TimeoutError. The socket does not block afterwards.
    """
    end.settimeout(0)
    arrived = select.poll()
    arrived.register(end, select.POLLIN)
    if not arrived.poll(max(1.0, (deadline - time.monotonic()) * 1000)):
        raise TimeoutError


def _check_whole(data: bytes, flags: int, decoder: Decoder[Message]) -> None:
    if flags & socket.MSG_TRUNC:
        raise NotAMessage(
            f"not a message: a packet of more than the {MAX_PACKET} bytes that are sent here"
        )
    if flags & socket.MSG_CTRUNC:
        try:
            message = _decode(data, decoder)
        except NotAMessage:
            message = None
        raise DescriptorsLost(message)


def _decode(data: bytes, decoder: Decoder[Message]) -> Message:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Misfit(data, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise NotAMessage(f"not a message: {error}") from error


def hang_up(fd: int) -> None:
    """Ends a connection, whichever other processes have it too. One that has ended already is no
    error.
    """
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as end:
        end.shutdown(socket.SHUT_RDWR)


def close_all(fds: list[int]) -> None:
    """Closes descriptors. One that is closed already is no error."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
