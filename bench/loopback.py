"""Ports of the loopback interface, at which servers listen."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

#: From which port on Linux gives ports to connections that did not ask for one.
_GIVEN: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST, _END, _ENOUGH = 10_000, 65_536, 10_000


def free_port() -> int:
    """A port that is free, and the one two below it, which RocketMQ takes too.

    Linux does not give it to an outgoing connection before the server that it is meant for has
    started, which takes some servers many seconds.
    """
    given = int(_GIVEN.read_text().split()[0])
    end = given if given >= _LEAST + _ENOUGH else _END
    while True:
        port = random.SystemRandom().randrange(_LEAST, end)
        with contextlib.suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port - 2))
            return port


def listens(port: int) -> bool:
    """Whether a server accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
