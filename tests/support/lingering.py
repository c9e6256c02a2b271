"""A socket that is slow to close: what a hostile client sends to a process that must not wait."""

from __future__ import annotations

import socket
import struct


def lingering(seconds: int) -> tuple[socket.socket, list[socket.socket]]:
    """A TCP socket whose last close blocks for that long, because its peer does not read; and the
    sockets that the caller closes afterwards.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 16))
    except BlockingIOError:
        ours.setblocking(True)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return ours, [listener, theirs]
