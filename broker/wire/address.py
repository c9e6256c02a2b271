"""`Address`: where a server listens."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

import msgspec

from ...conf.digits import number
from ...store.errors import StoreError

_BACKLOG: Final = 1024


class Address(msgspec.Struct, frozen=True):
    """Where to listen. The port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """HOST:PORT, or [HOST]:PORT for IPv6. Raises ValueError."""
        host, colon, port = text.rpartition(":")
        if host[:1] == "[" and host[-1:] == "]":
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"{text!a}: write an IPv6 address as [{host}]:{port}")
        found = number(port, 65535)
        if not (colon and host) or found is None:
            raise ValueError(f"{text!a} is not HOST:PORT, such as 127.0.0.1:9876")
        return cls(host, found)

    @classmethod
    def of(cls, listener: socket.socket) -> Address:
        """Where a socket listens, with the port that was free if it was asked for the port 0."""
        return cls(*listener.getsockname()[:2])

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def listen(self) -> socket.socket:
        """A socket that listens here. Raises StoreError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            busy = error.errno == errno.EADDRINUSE
            why = "another process listens there" if busy else str(error)
            raise StoreError(f"cannot listen on {self}: {why}") from error
        return listener

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
