"""A small HTTP server for the text format: GET alone, at a Unix socket or a loopback address."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import stat
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, TCPServer, ThreadingMixIn, UnixStreamServer
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ..store.errors import IllegalArgument

#: How long a client may take for its request and for reading the answer (s).
_PATIENCE_S: Final = 10.0
#: So many scrapes at once. More are turned away.
_AT_ONCE: Final = 8
#: A Unix socket's address has 107 bytes.
_MOST_PATH: Final = 107


class Address(NamedTuple):
    """Where to listen: a Unix socket's `path`, or a loopback `host` and `port`."""

    path: str = ""
    host: str = ""
    port: int = 0


def parse_address(text: str) -> Address:
    """`unix:PATH` or HOST:PORT. Raises IllegalArgument, also for an address that others reach."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path or "\0" in path or len(os.fsencode(path)) > _MOST_PATH:
            raise IllegalArgument(f"{text!a}: the path of a socket has 1 to {_MOST_PATH} bytes")
        return Address(path=path)
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+)):([0-9]{1,5})", text)
    if match is None or not 0 <= int(match[3]) <= 65535:
        raise IllegalArgument(f"{text!a}: write unix:PATH, or HOST:PORT such as 127.0.0.1:9876")
    host = "127.0.0.1" if match[2] == "localhost" else match[1] or match[2]
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise IllegalArgument(
            f"{text!a}: figures are told to this machine alone; give a loopback address "
            "(127.0.0.1, [::1]) or unix:PATH, and let a proxy that checks users lead to it"
        )
    return Address(host=host, port=int(match[3]))


class _Handler(BaseHTTPRequestHandler):
    server_version = "silomq"
    sys_version = ""
    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        server: Any = self.server
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            self.send_error(404, "only /metrics is here")
            return
        if not server.turns.acquire(blocking=False):
            self.send_error(503, "too many scrapes at once")
            return
        try:
            body = generate_latest(server.registry)
        finally:
            server.turns.release()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Scrapes are no news."""


class _Threads(ThreadingMixIn):
    daemon_threads = True
    registry: CollectorRegistry
    turns: threading.Semaphore

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news either."""


class _UnixServer(_Threads, UnixStreamServer):
    pass


class _LoopbackServer(_Threads, TCPServer):
    allow_reuse_address = True


class _Loopback6Server(_LoopbackServer):
    address_family = socket.AF_INET6


def listen(address: Address, registry: CollectorRegistry) -> BaseServer:
    """A server of the registry's figures. Its user calls `serve_forever`. A socket that a dead
    exporter has left is replaced, and nothing else. Raises OSError.
    """
    server: Any
    if address.path:
        _remove_dead(address.path)
        umask = os.umask(0o117)
        try:
            server = _UnixServer(address.path, _Handler)
        finally:
            os.umask(umask)
    else:
        kind = _Loopback6Server if ":" in address.host else _LoopbackServer
        server = kind((address.host, address.port), _Handler)
    server.registry = registry
    server.turns = threading.Semaphore(_AT_ONCE)
    return server  # type: ignore[no-any-return]


def shown(server: BaseServer) -> str:
    """The address of a server, as `--listen` takes it."""
    address: Any = server.server_address
    if isinstance(address, str):
        return f"unix:{address}"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _remove_dead(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(1.0)
            try:
                end.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
