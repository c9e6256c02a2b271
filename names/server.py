"""The sockets of a name server: connections, their limits, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import signal
import socket
from typing import TYPE_CHECKING, Any, Final

from ..broker.loop.reasons import Reasons
from ..broker.wire.address import Address
from ..broker.wire.command import BadFrame, decode
from ..broker.wire.frames import FrameReader
from ..conf.logging import get_logger, tell_repeats
from ..store.disk.files import Folder
from ..store.errors import StoreError
from .processor import NamesProcessor
from .routes import RouteTable

if TYPE_CHECKING:
    from pathlib import Path

    from .kv_config import KvConfig

#: RocketMQ's serverChannelMaxIdleTimeSeconds: brokers and clients ask every 30 s.
IDLE_S: Final = 120.0
MOST_CONNECTIONS: Final = 10_000
#: A connection is read no further while so many bytes of answers wait for its peer.
_MOST_UNSENT: Final = 1 << 20
_TICK_S: Final = 5.0
_BACKLOG: Final = 1024
#: All connections together may hold so many bytes of requests that are not complete.
_MOST_HELD: Final = 256 << 20


class NameServer:
    """Serves the protocol at an address until a signal ends it."""

    def __init__(self, address: Address, settings: KvConfig, *, ordered_topics: bool) -> None:
        self.address = address
        self.logger: Any = get_logger()
        self.connections: set[Connection] = set()
        self._settings = settings
        self._ordered_topics = ordered_topics
        self.held = 0  # bytes of unfinished requests of all connections
        self._reasons = Reasons(self.logger)

    async def run(self) -> None:
        """Listens, says so in the log, and returns after SIGTERM or SIGINT. Raises StoreError if it
        cannot listen there.
        """
        loop = asyncio.get_running_loop()
        self.table = RouteTable(loop.time)
        self.processor = NamesProcessor(
            self.table, self._settings, ordered_topics=self._ordered_topics
        )
        if self._settings.problem:
            self.logger.warning("the key-value settings", problem=self._settings.problem)
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        server = await self._listen(loop)
        async with server:
            bound = server.sockets[0].getsockname()
            self.logger.info("name server running", address=str(Address(*bound[:2])))
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _TICK_S)
                self._tick(loop.time())
        for connection in list(self.connections):
            connection.transport.abort()
        self.logger.info("name server stopped")

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        where = self.address
        try:
            return await loop.create_server(
                lambda: Connection(self, loop), where.host, where.port, backlog=_BACKLOG
            )
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            why = "another process listens there" if number == errno.EADDRINUSE else str(error)
            raise StoreError(f"cannot listen on {where}: {why}") from error

    def _tick(self, now: float) -> None:
        """Forgets brokers that are silent, and closes connections that are."""
        for address in self.table.expire():
            self.logger.warning("a broker has not registered in time: forgotten", address=address)
        for connection in list(self.connections):
            if now - connection.active_at > IDLE_S:
                self.close(connection, "nothing came or went for 120 s")
        self._reasons.tell()
        tell_repeats()

    def opened(self, connection: Connection) -> None:
        """A peer has connected."""
        self.connections.add(connection)
        if len(self.connections) > MOST_CONNECTIONS:
            self.close(connection, f"more than {MOST_CONNECTIONS} connections")

    def close(self, connection: Connection, why: str) -> None:
        """Closes a connection for a reason, which the log tells."""
        self._reasons.add(why, connection.peer)
        connection.transport.abort()

    def lost(self, connection: Connection) -> None:
        """A connection has ended, and with it the brokers that registered by it."""
        self.connections.discard(connection)
        connection.hold(0)
        for address in self.table.disconnected(connection):
            self.logger.warning("a broker's connection ended: forgotten", address=address)


class Connection(asyncio.Protocol):
    """One peer. Its requests are answered in order; it is read no further while it does not read
    its answers.
    """

    transport: asyncio.Transport

    def __init__(self, server: NameServer, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.active_at = loop.time()
        self.peer = ""
        self._server = server
        self._frames = FrameReader()
        self._paused = False
        self._held = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = str(Address(*peer[:2])) if peer else ""
        transport.set_write_buffer_limits(_MOST_UNSENT)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        self.active_at = self.loop.time()
        self._frames.feed(data)
        self._serve()
        if self._server.held > _MOST_HELD:
            self._server.close(self, f"more than {_MOST_HELD >> 20} MiB of unfinished requests")

    def hold(self, size: int) -> None:
        """Counts `size` bytes of unfinished requests for this connection."""
        self._server.held += size - self._held
        self._held = size

    def _serve(self) -> None:
        try:
            while not self._paused and (frame := self._frames.take()) is not None:
                request = decode(frame)
                answer = self._server.processor.process(request, self)
                if request.wants_answer:
                    self.transport.write(answer.encode())
        except BadFrame as error:
            self._server.close(self, f"no frame of the protocol: {error}")
        self.hold(self._frames.waiting)

    def pause_writing(self) -> None:
        self._paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        self.active_at = self.loop.time()
        self.transport.resume_reading()
        self._serve()

    def connection_lost(self, _error: Exception | None) -> None:
        self._server.lost(self)


def serve(address: Address, *, folder: Path | None, ordered_topics: bool) -> None:
    """Runs a name server in this process until SIGTERM or SIGINT. `folder` keeps its key-value
    settings. Raises StoreError, OSError.
    """
    from .kv_config import KvConfig

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if folder is not None:
        try:
            Folder.open(folder, create=True).close()
        except OSError as error:
            raise StoreError(f"cannot keep settings in {folder}: {error.strerror}") from error
    server = NameServer(address, KvConfig(folder), ordered_topics=ordered_topics)
    asyncio.run(server.run())
