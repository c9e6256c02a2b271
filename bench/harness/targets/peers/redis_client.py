"""The worker that sends and reads by redis-py: see `redis.py`.

Its asynchronous call is a pipeline: what was begun is sent, and answered, with the next wait.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import redis

from ...load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...load._fates import Fates
    from ...load.client import Bytes
    from ...load.protocol import Order

_BODY = b"b"


def _connect(order: Order) -> Any:
    connection = redis.Redis(host="127.0.0.1", port=int(order.endpoint["port"]))
    connection.ping()
    return connection


def _versions() -> dict[str, str]:
    return {"redis": str(redis.__version__)}


class RedisSender:
    """Sends to the streams of a topic in turn."""

    def __init__(self, order: Order, fates: Fates) -> None:
        self._connection = _connect(order)
        self._fates = fates
        self._pipeline = self._connection.pipeline(transaction=False)
        self._begun: list[int] = []
        self._queues, self._queue = order.queues, order.index % order.queues

    def _next(self, topic: str) -> str:
        self._queue = (self._queue + 1) % self._queues
        return f"{topic}:{self._queue}"

    @staticmethod
    def _fields(body: bytes, tag: str, key: str) -> dict[bytes, bytes | str]:
        fields: dict[bytes, bytes | str] = {_BODY: body}
        if tag:
            fields[b"t"] = tag
        if key:
            fields[b"k"] = key
        return fields

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        self._connection.xadd(self._next(topic), self._fields(body, tag, key))

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        self._pipeline.xadd(self._next(topic), self._fields(body, tag, key))
        self._begun.append(due)

    def wait(self, timeout_s: float) -> None:
        begun, self._begun = self._begun, []
        try:
            answers = self._pipeline.execute(raise_on_error=False)
        except redis.RedisError as error:
            answers = [error] * len(begun)
        for due, answer in zip(begun, answers, strict=True):
            if isinstance(answer, Exception):
                self._fates.refused(due, repr(answer))
            else:
                self._fates.stored(due)

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        with self._connection.pipeline(transaction=False) as pipeline:
            stream = self._next(topic)
            for body in bodies:
                pipeline.xadd(stream, self._fields(body, tag, key))
            pipeline.execute()

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        raise NotImplementedError

    def finish(self, timeout_s: float) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._connection.close()


class RedisReader:
    """A member of a consumer group, or with a group "" a reader of its own."""

    def __init__(self, order: Order) -> None:
        self._connection = _connect(order)
        self._group, self._name, self._most = order.group, f"c{order.index}", order.most
        self._read: dict[bytes, list[bytes]] = {}
        self._next: dict[Any, bytes] = {
            f"{topic}:{queue}".encode(): b">" if order.group else b"0"
            for topic in order.topics
            for queue in range(order.queues)
        }
        for stream in self._next if order.group else ():
            with contextlib.suppress(redis.ResponseError):  # another member has made it
                self._connection.xgroup_create(stream, order.group, "0", mkstream=True)

    def read(self, timeout_s: float) -> list[bytes]:
        self._acknowledge()
        wait_ms = max(1, int(timeout_s * 1000))
        found: Any
        if self._group:
            found = self._connection.xreadgroup(
                self._group, self._name, self._next, self._most, wait_ms
            )
        else:
            found = self._connection.xread(self._next, self._most, wait_ms)
        bodies = []
        for stream, entries in found.items() if isinstance(found, dict) else found or ():
            flat = entries[0] if entries and isinstance(entries[0], list) else entries
            for number, fields in flat:
                bodies.append(fields[_BODY])
                self._read.setdefault(stream, []).append(number)
            if not self._group and flat:
                self._next[stream] = flat[-1][0]
        return bodies

    def _acknowledge(self) -> None:
        if self._group and self._read:
            with self._connection.pipeline(transaction=False) as pipeline:
                for stream, numbers in self._read.items():
                    pipeline.xack(stream, self._group, *numbers)
                pipeline.execute()
        self._read = {}

    def listen(self, take: Callable[[Bytes], None]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._acknowledge()
        self._connection.close()


def open_sender(order: Order, fates: Fates) -> tuple[RedisSender, dict[str, str]]:
    """See `load.client.OpenSender`."""
    return RedisSender(order, fates), _versions()


def open_reader(order: Order) -> tuple[RedisReader, dict[str, str]]:
    """See `load.client.OpenReader`."""
    return RedisReader(order), _versions()


if __name__ == "__main__":
    main(open_sender, open_reader)
