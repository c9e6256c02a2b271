"""A loop in a thread of its own, which sends each frame back."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING, Self

from silomq.broker.loop._connection import Limits
from silomq.broker.loop._loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from silomq.broker.loop._connection import Connection, Secure


def frame(body: bytes, header: int = 0) -> bytes:
    """A frame with this body, which says that it begins with a header of so many bytes."""
    return struct.pack(">II", 4 + len(body), header) + body


class Echo:
    """Serves until the end of its block. What it notes may be read when a peer has its answer."""

    def __init__(
        self,
        *,
        most: int = 1 << 24,
        unsent: int = 1 << 20,
        held: int = 1 << 22,
        secure: Callable[[], Secure] | None = None,
    ) -> None:
        self.limits = Limits(frame=most, unsent=unsent, held=held, secure=secure)
        self.loop = Loop(self, self.limits)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.loop.listen(self.listener)
        self.address = self.listener.getsockname()
        #: How many frames came, why connections ended, and the last one.
        self.count = 0
        self.ends: list[str] = []
        self.last: Connection | None = None
        #: After so many frames a peer is held back.
        self.hold_at = -1
        #: A frame that ends the connection.
        self.poison = b""
        self._thread = threading.Thread(target=self.loop.run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.loop.stop()
        self._thread.join()
        self.loop.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, 10)

    def call(self, what: object) -> None:
        """Calls it in the loop's thread, and waits for its end."""
        done = threading.Event()

        def work() -> None:
            assert callable(what)
            what()
            done.set()

        self.loop.call_from_thread(work)
        assert done.wait(10)

    # -- for the loop

    def name(self, address: tuple[str, int]) -> tuple[str, bytes]:
        return f"{address[0]}:{address[1]}", bytes(8)

    def began(self, connection: Connection) -> None:
        self.last = connection

    def cannot_accept(self, error: OSError) -> None:
        raise error

    def ended(self, _: Connection, why: str) -> None:
        self.ends.append(why)

    def frame(self, connection: Connection, data: bytes) -> None:
        self.count += 1
        if self.poison and data.endswith(self.poison):
            connection.close("poison")
            return
        connection.send(struct.pack(">I", len(data)), data)
        if self.count == self.hold_at:
            connection.hold_back()

    def turned(self) -> None:
        pass

    def rest(self) -> float:
        return 1.0


def read(end: socket.socket, size: int) -> bytes:
    """So many bytes, fewer if the peer ends the connection."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while len(found) < size and (piece := end.recv(min(1 << 16, size - len(found)))):
            found += piece
    return bytes(found)
