"""`Crowd`: many connected clients that do nothing but send heart-beats."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import socket
import time
from array import array
from typing import TYPE_CHECKING

from ...broker.wire.codes import RequestCode, ResponseCode
from ...broker.wire.command import Command
from .peer import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Members of a group that subscribe to the same topic.
_MEMBERS = 10
_PIECE = 1 << 16
_STEP_S = 0.05
#: Descriptors that this process needs besides those of a crowd.
_OTHERS = 500
#: A connection closed so leaves nothing behind that waits, and its port is free.
_NO_LINGER = array("i", (1, 0)).tobytes()


def producer_beat(number: int) -> bytes:
    """The heart-beat of a producer."""
    producers = [{"groupName": "bench-senders"}]
    return json.dumps(
        {"clientID": f"idle-{number}", "consumerDataSet": [], "producerDataSet": producers}
    ).encode()


def consumer_beat(topic: str, number: int) -> bytes:
    """The heart-beat of a push consumer of a topic."""
    group = f"idle-{number // _MEMBERS}"
    subscriptions = [
        {
            "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
            "subVersion": 1_700_000_000_000, "tagsSet": [], "topic": name,
        }
        for name in (topic, f"%RETRY%{group}")
    ]  # fmt: skip
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }  # fmt: skip
    return json.dumps(
        {"clientID": f"idle-{number}", "consumerDataSet": [consumer], "producerDataSet": []}
    ).encode()


def room_for(wanted: int) -> int:
    """How many of `wanted` connections this process may have, its limit raised if it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most - _OTHERS)


class Crowd:
    """`count` connections to a broker, each of which has sent its heart-beat `beat(number)`. Raises
    OSError, and RuntimeError for a heart-beat that is refused.
    """

    def __init__(self, address: str, count: int, beat: Callable[[int], bytes]) -> None:
        self._poll = select.poll()
        self._peers: list[Peer] = []
        self._sockets: dict[int, socket.socket] = {}
        self._frames = [
            Command(RequestCode.HEART_BEAT, body=beat(number)).encode() for number in range(count)
        ]
        for number in range(count):
            peer = Peer(address)
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._peers.append(peer)
            answer = peer.ask(RequestCode.HEART_BEAT, body=beat(number))
            if answer.code != ResponseCode.SUCCESS:
                raise RuntimeError(f"a heart-beat is refused: {answer.code} {answer.remark}")
            self._sockets[peer.socket.fileno()] = peer.socket
            self._poll.register(peer.socket, select.POLLIN)

    def live(self, seconds: float, every_s: float) -> None:
        """Sends the heart-beats, each `every_s` and all at other times, for so long. Raises
        ConnectionError if one is disconnected.
        """
        start = time.monotonic()
        done = 0
        while (now := time.monotonic() - start) < seconds:
            while done < now / every_s * len(self._peers):
                which = done % len(self._peers)
                self._peers[which].socket.sendall(self._frames[which])
                done += 1
            for descriptor, _ in self._poll.poll(_STEP_S * 1000):
                if not self._sockets[descriptor].recv(_PIECE):
                    raise ConnectionError("the broker has closed an idle connection")

    def close(self) -> None:
        for peer in self._peers:
            peer.socket.close()


@contextlib.contextmanager
def crowd(address: str, count: int, beat: Callable[[int], bytes]) -> Iterator[Crowd]:
    """A crowd, whose connections end at the end."""
    found = Crowd(address, count, beat)
    try:
        yield found
    finally:
        found.close()
