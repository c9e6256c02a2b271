"""Small messages with descriptors between a store's processes, and between the registry and its
clients.

A message is one SOCK_SEQPACKET packet: JSON, so that a person with strace can read it, and up to
four descriptors. The kernel keeps packets apart, and a packet is received whole or not at all.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import time
from typing import Any

import msgspec

MAX_PACKET = 65536
MAX_FDS = 8
_PATIENCE_S = 5.0


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends, both non-blocking."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    return ends[0], ends[1]


def send(
    end: socket.socket, message: dict[str, Any], fds: list[int] | tuple[int, ...] = ()
) -> None:
    """Sends one message. The descriptors are duplicated; the caller keeps its own. OSError as
    sendmsg.
    """
    data = msgspec.json.encode(message)
    if len(data) > MAX_PACKET:
        raise ValueError(f"a message of {len(data)} bytes: at most {MAX_PACKET} fit a packet")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    end.sendmsg([data], rights)


def post(
    end: socket.socket, message: dict[str, Any], fds: list[int] | tuple[int, ...] = ()
) -> None:
    """`send`, waiting for room as long as the supervisor, which always reads, may need.

    OSError as sendmsg; BlockingIOError when there was no room for seconds.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            send(end, message, fds)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            select.select([], [end], [], 0.1)
        else:
            return


def receive(end: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """One message and its descriptors, which are now the caller's; (None, []) when the other end is
    closed.

    Raises BlockingIOError when nothing is there (non-blocking ends), ValueError for a packet that
    is not a JSON object; its descriptors are closed.
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
        message = _decode(data, flags)
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        close_all(list(fds))
        raise ValueError(f"not a message: {error}") from error
    return message, list(fds)


def _decode(data: bytes, flags: int) -> dict[str, Any]:
    if flags & socket.MSG_TRUNC:
        raise ValueError(f"a packet of more than the {MAX_PACKET} bytes that are sent here")
    if flags & socket.MSG_CTRUNC:
        raise ValueError(
            f"descriptors were cut off: more than {MAX_FDS} came, or this process has too many "
            "open files (see: ulimit -n)"
        )
    return msgspec.json.decode(data, type=dict[str, Any])


def close_all(fds: list[int]) -> None:
    """Closes descriptors; what is closed already is left alone."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
