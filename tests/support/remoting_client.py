"""A client of the remoting protocol on one socket: every byte that it sends is the test's choice.

It has no thread and no policy. It sends what it is told, and reads the socket only while a test
waits for something. Answers are kept by their opaque, requests of the server in a list.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Self

from support.harness import WAIT_S

from silomq.broker.wire.command import ANSWER, ONE_WAY, Command, Serialization, decode
from silomq.broker.wire.frames import FrameReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

#: RocketMQ 5.3.3 and 4.9.8 as versions of a peer.
NEW_VERSION = 479
OLD_VERSION = 409
_PIECE = 1 << 16


class Disconnected(Exception):
    """The server has closed the connection."""


class RemotingClient:
    """A connection to a name server or a broker. `version` and `form` are of what it sends, if a
    call does not say otherwise.
    """

    def __init__(
        self,
        address: str,
        *,
        form: Serialization = Serialization.JSON,
        version: int = NEW_VERSION,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT_S)
        self.form = form
        self.version = version
        #: Requests of the server, in their order, until somebody takes them.
        self.requests: list[Command] = []
        #: Answers that nobody has taken, by opaque.
        self.answers: dict[int, Command] = {}
        self._reader = FrameReader()
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # -- sending

    def command(
        self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """A request with the next opaque, not sent yet."""
        self._opaque += 1
        texts = {name: str(value) for name, value in (fields or {}).items() if value is not None}
        return Command(
            code, texts, body, self._opaque, version=self.version, serialization=self.form
        )

    def send(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> int:
        """Sends a request and returns its opaque."""
        request = self.command(code, fields, body)
        self.send_bytes(request.encode())
        return request.opaque

    def tell(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> int:
        """Sends a one-way request and returns its opaque."""
        request = self.command(code, fields, body)
        request.flag = ONE_WAY
        self.send_bytes(request.encode())
        return request.opaque

    def send_bytes(self, data: bytes, piece: int | None = None) -> None:
        """Sends bytes as they are, at once or in pieces of so many bytes."""
        step = piece or len(data)
        for at in range(0, len(data), step):
            self.socket.sendall(data[at : at + step])

    # -- receiving

    def ask(
        self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """The answer to a request."""
        return self.answer(self.send(code, fields, body))

    def answer(self, opaque: int, timeout_s: float = WAIT_S) -> Command:
        """The answer to the request with this opaque, which must come in time."""
        deadline = time.monotonic() + timeout_s
        while opaque not in self.answers:
            left = deadline - time.monotonic()
            assert left > 0, f"no answer to {opaque} within {timeout_s:g} s"
            self._receive(left)
        return self.answers.pop(opaque)

    def request_of_server(self, code: int, timeout_s: float = WAIT_S) -> Command:
        """The next request of the server with this code, which must come in time."""
        deadline = time.monotonic() + timeout_s
        while not (found := [one for one in self.requests if one.code == code]):
            left = deadline - time.monotonic()
            assert left > 0, f"no request {code} within {timeout_s:g} s"
            self._receive(left)
        self.requests.remove(found[0])
        return found[0]

    def listen(self, seconds: float) -> None:
        """Takes in all that arrives for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._receive(left)

    def is_closed_within(self, seconds: float) -> bool:
        """Whether the server closes the connection in this time."""
        try:
            self.listen(seconds)
        except (Disconnected, ConnectionError):
            return True
        return False

    def _receive(self, timeout_s: float) -> None:
        """Takes in what arrives next, if it does in time."""
        poll = select.poll()  # `select` takes no descriptor above 1023
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return
        self._take_in()

    def _take_in(self) -> None:
        piece = self.socket.recv(_PIECE)
        if not piece:
            raise Disconnected
        self._reader.feed(piece)
        while (frame := self._reader.take()) is not None:
            command = decode(frame)
            if command.flag & ANSWER:
                assert command.opaque not in self.answers, "two answers to one request"
                self.answers[command.opaque] = command
            else:
                self.requests.append(command)
