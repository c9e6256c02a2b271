"""`Address`: where a server listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
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
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
            raise ValueError(f"{text!a} is not HOST:PORT, such as 127.0.0.1:9876")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
