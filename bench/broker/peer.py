"""`Peer`: a connection to a broker or a name server, one request at a time."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Self

from ...broker.wire.codes import RequestCode, ResponseCode
from ...broker.wire.command import ANSWER, Command, decode
from ...broker.wire.frames import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

_PATIENCE_S = 60.0
_PIECE = 1 << 16
_EVERY_S = 0.002


class Peer:
    """A connection to `address`, HOST:PORT. Raises OSError."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), _PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._opaque = 0

    def ask(
        self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """The answer to a request. Raises OSError, ConnectionError."""
        self._opaque += 1
        texts = {name: str(value) for name, value in (fields or {}).items()}
        self.socket.sendall(Command(code, texts, body, self._opaque).encode())
        while True:
            while (frame := self._reader.take()) is not None:
                command = decode(frame)
                if command.flag & ANSWER and command.opaque == self._opaque:
                    return command
            piece = self.socket.recv(_PIECE)
            if not piece:
                raise ConnectionError("the server has closed the connection")
            self._reader.feed(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()


def wait_until(true: Callable[[], bool], what: str, patience_s: float = _PATIENCE_S) -> None:
    """Waits until `true()` is so. Raises TimeoutError."""
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {patience_s:g} s: {what}")
        time.sleep(_EVERY_S)


def answers(address: str, code: int, fields: Mapping[str, object] | None = None) -> bool:
    """Whether a server answers a request at all."""
    try:
        with Peer(address) as peer:
            peer.ask(code, fields)
    except OSError:
        return False
    return True


def make_topic(names: str, broker: str, topic: str, queues: int) -> None:
    """Makes a topic as an operator does, and waits until clients find it."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
        "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        "order": "false",
    }  # fmt: skip
    with Peer(broker) as peer:
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"the broker does not make a topic: {answer.code} {answer.remark}")

    def is_known() -> bool:
        with Peer(names) as peer:
            route = peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return route.code == ResponseCode.SUCCESS

    wait_until(is_known, f"the route of {topic}")


def queue_end(broker: str, topic: str, queue: int) -> int:
    """How many messages a queue has had."""
    with Peer(broker) as peer:
        answer = peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
    return int(answer.fields["offset"])
