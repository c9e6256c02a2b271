"""What is measured without a JVM at the client's side: pipelined sends and pulls, lone sends."""

from __future__ import annotations

import contextlib
import socket
import time
from array import array
from typing import TYPE_CHECKING

from . import _load
from .frames import PULLED_AT_ONCE, pulls, sends
from .peer import Peer, queue_end
from .servers import QUEUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._load import Requests
    from .amounts import Amounts
    from .servers import Server

CONNECTIONS = (1, 64)
SIZES = (128, 1024)
#: Requests of all connections that are under way.
_SENDS_AHEAD = 2048
_PULLS_AHEAD = 64
_PATIENCE_MS = 30_000
#: A blocking socket of the generator gives up after 30 s.
_TIMEOUT = array("l", (_PATIENCE_MS // 1000, 0)).tobytes()


@contextlib.contextmanager
def _connected(address: str, count: int) -> Iterator[list[int]]:
    """Descriptors of blocking sockets that are connected to a broker."""
    with contextlib.ExitStack() as ends:
        sockets = [ends.enter_context(Peer(address)).socket for _ in range(count)]
        for one in sockets:
            one.settimeout(None)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT)
        yield [one.fileno() for one in sockets]


def _pipelined(
    server: Server, what: Requests, connections: int, ahead: int, *, warm: int, count: int
) -> dict[str, float]:
    """Makes `warm` requests, and `count` that are measured."""
    window = max(2, ahead // connections)
    with _connected(server.broker, connections) as fds:
        if warm:
            _load.run(what, fds, window, warm, _PATIENCE_MS)
        before, own, server_cpu = what.messages, time.thread_time(), server.cpu_seconds()
        seconds = _load.run(what, fds, window, warm + count, _PATIENCE_MS)
        server_cpu = server.cpu_seconds() - server_cpu
        own = time.thread_time() - own
    messages = what.messages - before
    if not messages:
        raise RuntimeError(f"no request succeeds: response code {what.code}")
    return {
        "messages": messages,
        "failed": what.failed,
        "rate": messages / seconds,
        "cpu_us": server_cpu / messages * 1e6,
        "own_us": own / messages * 1e6,
    }


def fill(server: Server, topic: str, size: int, count: int) -> None:
    """Sends `count` messages. RocketMQ may refuse some when it is busy: they are sent again."""
    what = sends(topic, size, QUEUES, "F" * 20)
    asked = 0
    with _connected(server.broker, 1) as fds:
        while what.messages < count:
            asked += count - what.messages
            _load.run(what, fds, _SENDS_AHEAD // 4, asked, _PATIENCE_MS)


def pipelined_sends(
    server: Server, topic: str, size: int, connections: int, amounts: Amounts
) -> dict[str, float]:
    """Sends as fast as they are answered, to the queues in turn."""
    what = sends(topic, size, QUEUES, f"{connections:020d}")
    warm, count = amounts.sends_warm, amounts.sends
    return _pipelined(server, what, connections, _SENDS_AHEAD, warm=warm, count=count)


def pipelined_pulls(server: Server, topic: str, connections: int) -> dict[str, float]:
    """Pulls every message that all queues of a topic have, as fast as pulls are answered."""
    least = min(queue_end(server.broker, topic, queue) for queue in range(QUEUES))
    count = least // PULLED_AT_ONCE * QUEUES
    warm = count // 8 // QUEUES * QUEUES
    what = pulls(topic, QUEUES, count)
    return _pipelined(server, what, connections, _PULLS_AHEAD, warm=warm, count=count - warm)


def lone_sends(server: Server, topic: str, count: int) -> dict[str, float]:
    """Latencies (us) of sends of 128 bytes, one at a time over one connection."""
    what = sends(topic, 128, QUEUES, "A" * 20)
    with _connected(server.broker, 1) as fds:
        _load.lone(what, fds[0], count // 10)
        taken = sorted(_load.lone(what, fds[0], count))
    return {
        "messages": count,
        "failed": what.failed,
        "p50_us": percentile(taken, 0.5) / 1e3,
        "p99_us": percentile(taken, 0.99) / 1e3,
    }


def percentile(ordered: list[int], share: float) -> int:
    """The nearest rank to a share of ordered values."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
