"""Ports of the loopback interface, at which peers listen."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether a server accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
