"""The worker that sends and reads by nats-py: see `nats.py`. Its event loop runs while the worker
calls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import BadRequestError

from ...load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ...load.client import Acknowledged, Bytes
    from ...load.protocol import Order

_STREAM = "bench"
_PREFIX = "bench"
_PATIENCE_S = 30.0


def _versions() -> dict[str, str]:
    return {"nats-py": importlib.metadata.version("nats-py")}


class _Connection:
    """A connection, and the loop that it runs on."""

    def __init__(self, order: Order) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._run(
            nats.connect(f"nats://127.0.0.1:{order.endpoint['port']}")
        )
        self._stream = self._connection.jetstream(
            timeout=_PATIENCE_S, publish_async_max_pending=order.window + 1
        )
        config = StreamConfig(name=_STREAM, subjects=[f"{_PREFIX}.>"])
        with contextlib.suppress(BadRequestError):  # another worker has made it
            self._run(self._stream.add_stream(config))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._run(self._connection.close())
        self._loop.close()


class NatsSender(_Connection):
    """Publishes to the topic's subject."""

    def __init__(self, order: Order, acknowledged: Acknowledged) -> None:
        super().__init__(order)
        self._acknowledged = acknowledged
        self._begun: dict[asyncio.Future[Any], int] = {}
        self._answered: list[asyncio.Future[Any]] = []
        self._some = asyncio.Event()

    @staticmethod
    def _headers(tag: str, key: str) -> dict[str, str] | None:
        headers = {"Tag": tag} if tag else {}
        if key:
            headers["Key"] = key
        return headers or None

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        subject, headers = f"{_PREFIX}.{topic}", self._headers(tag, key)
        self._run(self._stream.publish(subject, body, timeout=_PATIENCE_S, headers=headers))

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        subject, headers = f"{_PREFIX}.{topic}", self._headers(tag, key)
        future = self._run(self._stream.publish_async(subject, body, headers=headers))
        self._begun[future] = due
        future.add_done_callback(self._answer)

    def _answer(self, future: asyncio.Future[Any]) -> None:
        self._answered.append(future)
        self._some.set()

    def wait(self, timeout_s: float) -> None:
        self._some.clear()
        if not self._answered:
            with contextlib.suppress(TimeoutError):
                self._run(asyncio.wait_for(self._some.wait(), timeout_s))
        answered, self._answered = self._answered, []
        for future in answered:
            error = future.exception()
            self._acknowledged(self._begun.pop(future), repr(error) if error else "")

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        raise NotImplementedError

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        raise NotImplementedError

    def finish(self, timeout_s: float) -> None:
        raise NotImplementedError


class NatsReader(_Connection):
    """A pull consumer. The members of a group share a durable one."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._most = order.most
        self._acknowledges = bool(order.group)
        self._read: list[Any] = []
        config = ConsumerConfig(
            filter_subjects=[f"{_PREFIX}.{topic}" for topic in order.topics],
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.EXPLICIT if order.group else AckPolicy.NONE,
            max_ack_pending=1 << 20,
        )
        self._subscription = self._run(
            self._stream.pull_subscribe(
                "", durable=order.group or None, stream=_STREAM, config=config
            )
        )

    def read(self, timeout_s: float) -> list[bytes]:
        return self._run(self._fetch(timeout_s))  # type: ignore[no-any-return]

    async def _fetch(self, timeout_s: float) -> list[bytes]:
        await self._acknowledge()
        try:
            found = await self._subscription.fetch(self._most, timeout=timeout_s)
        except TimeoutError:  # of nats-py, or of asyncio
            return []
        self._read = found if self._acknowledges else []
        return [message.data for message in found]

    async def _acknowledge(self) -> None:
        for message in self._read:
            await message.ack()
        self._read = []

    def listen(self, take: Callable[[Bytes], None]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._run(self._acknowledge())
        self._run(self._connection.flush())
        super().close()


def open_sender(order: Order, acknowledged: Acknowledged) -> tuple[NatsSender, dict[str, str]]:
    """See `load.client.OpenSender`."""
    return NatsSender(order, acknowledged), _versions()


def open_reader(order: Order) -> tuple[NatsReader, dict[str, str]]:
    """See `load.client.OpenReader`."""
    return NatsReader(order), _versions()


if __name__ == "__main__":
    main(open_sender, open_reader)
