"""RocketMQ's protocol, as a worker: a small client of our own, the same for every broker.

A sender patches two numbers into a frame that is made once for each topic, tag, key and queue. A
reader keeps one pull of each of its queues under way; the queues are divided by their numbers among
the members of a group. The progress of a group is committed with each pull.
"""

from __future__ import annotations

import itertools
import json
import select
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from .... import __version__
from ....broker.wire.codes import RequestCode, ResponseCode
from ....broker.wire.command import ANSWER, ONE_WAY, WORD, Command, decode
from ....broker.wire.frames import FrameReader
from ....client.consuming.message_view import MessageView
from ....store.record.properties import UNIQ_KEY
from ..load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..load._fates import Fates
    from ..load.client import Bytes
    from ..load.protocol import Order

_TIMEOUT_S: Final = 30.0
_PIECE: Final = 1 << 18
#: What stands in a frame's header for the numbers that are patched.
_OPAQUE: Final = 987654321
_KEY: Final = "7E57" * 8
_GROUP: Final = "bench-senders"
_COMMITS, _SUSPENDS, _SUBSCRIBES = 1, 2, 4
_SUSPENDED_MS: Final = 15_000
#: A message within a batch: its size, magic, CRC of the body (0: none), flag, size of the body.
_IN_BATCH: Final = struct.Struct(">iiiii")
_PROPERTIES: Final = struct.Struct(">h")


class Refused(RuntimeError):
    """A broker's answer that is no success: its code and what it says."""


def _check(answer: Command) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise Refused(f"code {answer.code}: {answer.remark or 'no remark'}")


class Link:
    """A connection to a broker, HOST:PORT. Raises OSError."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def send(self, *pieces: bytes) -> None:
        """Sends a frame."""
        self.socket.sendall(b"".join(pieces))

    def take(self) -> Command | None:
        """An answer that has come whole."""
        while (frame := self._reader.take()) is not None:
            command = decode(frame)
            if command.flag & ANSWER:
                return command
        return None

    def receive(self, timeout_s: float) -> bool:
        """Takes in what comes within a time. Returns whether anything has. Raises OSError."""
        if not self._poll.poll(timeout_s * 1000):
            return False
        piece = self.socket.recv(_PIECE)
        if not piece:
            raise ConnectionError("the broker has closed the connection")
        self._reader.feed(piece)
        return True


class Frames:
    """Sends of one kind: all of the frame but its body, with the places of the numbers open."""

    def __init__(self, code: int, fields: dict[str, object], flag: int) -> None:
        texts = {name: str(value) for name, value in fields.items()}
        frame = Command(code, texts, b"", _OPAQUE, flag).encode()
        self._header = frame[WORD.size :]  # its own length first
        self._pattern = (
            self._header.replace(b"%", b"%%")
            .replace(str(_OPAQUE).encode(), b"%(n)09d")
            .replace(_KEY.encode(), b"%(k)032X")
        )
        self._length = len(self._header)

    def make(self, number: int, key: int, body: bytes) -> bytes:
        """A whole frame; `number` has nine digits at most."""
        header = self._pattern % {b"n": number, b"k": key}
        return b"".join((WORD.pack(self._length + len(body)), header, body))


class _Kind(NamedTuple):
    """What the frames of one kind have in common."""

    topic: str
    tag: str
    key: str
    queue: int
    flag: int
    code: int


class RemotingSender:
    """Sends to one broker over one connection, to the queues in turn."""

    def __init__(self, order: Order, fates: Fates) -> None:
        self._link = Link(order.endpoint["broker"])
        self._queues = itertools.cycle(range(order.queues))
        self._fates = fates
        self._frames: dict[_Kind, Frames] = {}
        self._number = 100_000_000
        # The key that a message has in the index: unique for the run.
        self._key = (time.time_ns() << 64) + (order.index << 48)
        self._open: dict[int, int] = {}

    def _make(self, topic: str, body: bytes, tag: str, key: str, *, flag: int, code: int) -> bytes:
        queue = next(self._queues)
        what = _Kind(topic, tag, key, queue, flag, code)
        frames = self._frames.get(what)
        if frames is None:
            frames = self._frames[what] = self._frames_of(what)
        self._number = self._number + 1 if self._number < 999_999_998 else 100_000_000
        self._key += 1
        return frames.make(self._number, self._key, body)

    @staticmethod
    def _frames_of(kind: _Kind) -> Frames:
        properties = {UNIQ_KEY: _KEY, "WAIT": "true", "TAGS": kind.tag, "KEYS": kind.key}
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items() if value)
        is_batch = kind.code == RequestCode.SEND_BATCH_MESSAGE
        fields = {
            "a": _GROUP, "b": kind.topic, "c": "TBW102", "d": 4, "e": kind.queue, "f": 0,
            "g": 1_700_000_000_000, "h": 0, "i": "" if is_batch else text, "j": 0, "k": "false",
            "l": 0, "m": str(is_batch).lower(), "n": "",
        }  # fmt: skip
        return Frames(kind.code, fields, kind.flag)

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        code = RequestCode.SEND_MESSAGE_V2
        self._link.send(self._make(topic, body, tag, key, flag=ONE_WAY, code=code))

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        code = RequestCode.SEND_MESSAGE_V2
        self._link.send(self._make(topic, body, tag, key, flag=0, code=code))
        self._await()

    def _await(self) -> None:
        """Waits for the answer of the last request. Raises Refused, TimeoutError, OSError."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            while (answer := self._link.take()) is not None:
                if answer.opaque == self._number:
                    _check(answer)
                    return
            if not self._link.receive(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"no answer within {_TIMEOUT_S:.0f} s")

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        code = RequestCode.SEND_MESSAGE_V2
        self._link.send(self._make(topic, body, tag, key, flag=0, code=code))
        self._open[self._number] = due

    def wait(self, timeout_s: float) -> None:
        if self._link.receive(timeout_s):
            while (answer := self._link.take()) is not None:
                due = self._open.pop(answer.opaque, None)
                if due is None:
                    continue
                if answer.code == ResponseCode.SUCCESS:
                    self._fates.stored(due)
                else:
                    self._fates.refused(due, f"code {answer.code}: {answer.remark}")

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        pieces = []
        for body in bodies:
            self._key += 1
            values = {UNIQ_KEY: f"{self._key:032X}", "WAIT": "true", "TAGS": tag, "KEYS": key}
            given = (f"{name}\x01{value}\x02" for name, value in values.items() if value)
            properties = "".join(given).encode()
            size = _IN_BATCH.size + len(body) + _PROPERTIES.size + len(properties)
            pieces += [_IN_BATCH.pack(size, 0, 0, 0, len(body)), body]
            pieces += [_PROPERTIES.pack(len(properties)), properties]
        code = RequestCode.SEND_BATCH_MESSAGE
        self._link.send(self._make(topic, b"".join(pieces), tag, key, flag=0, code=code))
        self._await()

    def finish(self, timeout_s: float) -> None:
        """Asks for something: requests of a connection are taken in their order."""
        self._number += 1
        fields = {"topic": "TBW102", "queueId": "0"}
        self._link.send(Command(RequestCode.GET_MAX_OFFSET, fields, b"", self._number).encode())
        self._link.socket.settimeout(timeout_s)
        self._await()

    def close(self) -> None:
        self._link.socket.close()


class RemotingReader:
    """Pulls the queues of one member of a group."""

    def __init__(self, order: Order) -> None:
        self._link = Link(order.endpoint["broker"])
        self._order = order
        begins: dict[str, int] = json.loads(order.endpoint["begins"])
        queues = [(topic, queue) for topic in order.topics for queue in range(order.queues)]
        #: By opaque number: a queue, and the offset of its next message.
        self._mine = [
            [topic, queue, begins.get(f"{topic}:{queue}", 0)]
            for topic, queue in queues[order.index :: order.workers]
        ]
        self._waiting: deque[bytes | memoryview] = deque()
        for number in range(len(self._mine)):
            self._pull(number)

    def _pull(self, number: int) -> None:
        topic, queue, offset = self._mine[number]
        fields = {
            "consumerGroup": self._order.group, "topic": topic, "queueId": queue,
            "queueOffset": offset, "maxMsgNums": min(self._order.most, 1024),
            "sysFlag": _COMMITS | _SUSPENDS | _SUBSCRIBES, "commitOffset": offset,
            "suspendTimeoutMillis": _SUSPENDED_MS, "subscription": "*", "subVersion": 0,
            "expressionType": "TAG",
        }  # fmt: skip
        texts = {name: str(value) for name, value in fields.items()}
        self._link.send(Command(RequestCode.PULL_MESSAGE, texts, b"", number).encode())

    def read(self, timeout_s: float) -> Sequence[Bytes]:
        if not self._waiting:
            self._receive(timeout_s)
        count = min(self._order.most, len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    def _receive(self, timeout_s: float) -> None:
        """Takes the answers that come within a time. Raises Refused, OSError."""
        self._link.receive(timeout_s)
        while (answer := self._link.take()) is not None:
            number = answer.opaque
            if answer.code == ResponseCode.SUCCESS:
                self._waiting += _bodies(answer.body)
            elif answer.code not in _TRY_AGAIN:
                self._pull(number)
                _check(answer)
            following = answer.fields.get("nextBeginOffset")
            if following is not None:
                self._mine[number][2] = int(following)
            self._pull(number)

    def listen(self, take: Callable[[Bytes], None]) -> None:
        raise NotImplementedError("RocketMQ's protocol has no callbacks")

    def close(self) -> None:
        self._link.socket.close()


_TRY_AGAIN: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def _bodies(records: bytes) -> list[bytes]:
    """The bodies of the records of a pull's answer, one behind the other."""
    found, at = [], 0
    while at < len(records):
        (size,) = WORD.unpack_from(records, at)
        found.append(MessageView(records[at : at + size], 0).body)
        at += size
    return found


def open_sender(order: Order, fates: Fates) -> tuple[RemotingSender, dict[str, str]]:
    """A producer of the broker at the endpoint."""
    return RemotingSender(order, fates), {"silomq's remoting client": __version__}


def open_reader(order: Order) -> tuple[RemotingReader, dict[str, str]]:
    """A member of the order's group."""
    return RemotingReader(order), {"silomq's remoting client": __version__}


if __name__ == "__main__":
    main(open_sender, open_reader)
