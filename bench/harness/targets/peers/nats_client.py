"""The worker that sends and reads by nats-py: see `nats.py`. Its event loop runs while the worker
calls it. To start the loop costs as much as to publish a message, so what was begun is published
with the next wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
from typing import TYPE_CHECKING, Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import BadRequestError

from ...load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ...load._fates import Fates
    from ...load.client import Bytes
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

    def __init__(self, order: Order, fates: Fates) -> None:
        super().__init__(order)
        self._fates = fates
        self._begun: list[tuple[str, bytes, dict[str, str] | None, int]] = []
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
        self._begun.append((f"{_PREFIX}.{topic}", body, self._headers(tag, key), due))

    def wait(self, timeout_s: float) -> None:
        self._run(self._publish(timeout_s))

    async def _publish(self, timeout_s: float) -> None:
        """Publishes what was begun, and waits for the next answers."""
        self._some.clear()
        begun, self._begun = self._begun, []
        for subject, body, headers, due in begun:
            try:
                future = await self._stream.publish_async(subject, body, headers=headers)
            except Exception as error:  # noqa: BLE001 - a client of any kind
                self._fates.refused(due, repr(error))
            else:
                future.add_done_callback(functools.partial(self._answer, due))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._some.wait(), timeout_s)

    def _answer(self, due: int, future: asyncio.Future[Any]) -> None:
        self._some.set()
        error = future.exception()
        if error is None:
            self._fates.stored(due)
        else:
            self._fates.refused(due, repr(error))

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


def open_sender(order: Order, fates: Fates) -> tuple[NatsSender, dict[str, str]]:
    """See `load.client.OpenSender`."""
    return NatsSender(order, fates), _versions()


def open_reader(order: Order) -> tuple[NatsReader, dict[str, str]]:
    """See `load.client.OpenReader`."""
    return NatsReader(order), _versions()


if __name__ == "__main__":
    main(open_sender, open_reader)
