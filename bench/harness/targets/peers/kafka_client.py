"""The worker that sends and reads by confluent-kafka: see `kafka.py`."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from ...load.worker import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...load._fates import Fates
    from ...load.client import Bytes
    from ...load.protocol import Order

_PATIENCE_S = 30.0
_POLL_S = 0.1
_MOST_MESSAGES = 1_000_000
_MOST_BYTES = 8 << 20


def _servers(port: str | int) -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 3}


def _versions() -> dict[str, str]:
    return {
        "confluent-kafka": str(confluent_kafka.__version__),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def make_topics(port: int, topics: list[str], partitions: int) -> None:
    """Makes topics, and waits until they are there."""
    client = AdminClient(_servers(port))
    wanted = [NewTopic(topic, partitions, 1) for topic in topics]
    for made in client.create_topics(wanted, operation_timeout=_PATIENCE_S).values():
        made.result(_PATIENCE_S)


class KafkaSender:
    """A producer without a time to linger, as a lone send needs it. One-way is acks=0."""

    def __init__(self, order: Order, fates: Fates) -> None:
        self._fates = fates
        self._failed = ""
        self._missing = 0
        self._producer = confluent_kafka.Producer(
            {
                **_servers(order.endpoint["port"]),
                "acks": "0" if order.call == "oneway" else "all",
                "linger.ms": 0,
                "message.max.bytes": _MOST_BYTES,
                "queue.buffering.max.messages": _MOST_MESSAGES,
                "partitioner": "consistent_random",
                "message.timeout.ms": int(_PATIENCE_S * 1000),
            }
        )
        for topic in order.topics:  # what a client knows of a topic is not asked for in a send
            self._producer.list_topics(topic, _PATIENCE_S)

    def _produce(
        self, topic: str, body: bytes, tag: str, key: str, told: Callable[[Any, Any], None] | None
    ) -> None:
        headers = [("tag", tag.encode())] if tag else None
        # A key would choose the partition: it goes with the headers, as RocketMQ's does.
        if key:
            headers = [*(headers or []), ("key", key.encode())]
        while True:
            try:
                self._producer.produce(topic, body, headers=headers, on_delivery=told)
            except BufferError:  # the client's own queue is full: answers make room
                self._producer.poll(_POLL_S)
            else:
                return

    def _told(self, error: Any, _: Any) -> None:
        self._missing -= 1
        if error is not None:
            self._failed = str(error)

    def oneway(self, topic: str, body: bytes, tag: str, key: str) -> None:
        self._produce(topic, body, tag, key, None)
        self._producer.poll(0)

    def send(self, topic: str, body: bytes, tag: str, key: str) -> None:
        self.batch(topic, [body], tag, key)

    def begin(self, topic: str, body: bytes, tag: str, key: str, due: int) -> None:
        self._produce(topic, body, tag, key, self._fates.delivery(due))

    def wait(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def batch(self, topic: str, bodies: list[bytes], tag: str, key: str) -> None:
        self._failed, self._missing = "", len(bodies)
        for body in bodies:
            self._produce(topic, body, tag, key, self._told)
        deadline = time.monotonic() + 2 * _PATIENCE_S
        while self._missing:
            self._producer.poll(_POLL_S)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._missing} messages have no answer")
        if self._failed:
            raise RuntimeError(self._failed)

    def finish(self, timeout_s: float) -> None:
        left = self._producer.flush(timeout_s)
        if left:
            raise TimeoutError(f"{left} messages were not sent within {timeout_s:g} s")

    def close(self) -> None:
        self._producer.flush(_PATIENCE_S)


class KafkaReader:
    """A consumer. It commits what the last read returned with the next read."""

    def __init__(self, order: Order) -> None:
        self._most = order.most
        self._commits = bool(order.group)
        self._has_read = False
        self._consumer = confluent_kafka.Consumer(
            {
                **_servers(order.endpoint["port"]),
                "group.id": order.group or uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "fetch.message.max.bytes": _MOST_BYTES,
            }
        )
        if self._commits:
            self._consumer.subscribe(order.topics)
        else:
            self._consumer.assign(
                [
                    confluent_kafka.TopicPartition(topic, queue, confluent_kafka.OFFSET_BEGINNING)
                    for topic in order.topics
                    for queue in range(order.queues)
                ]
            )

    def read(self, timeout_s: float) -> list[bytes]:
        if self._commits and self._has_read:
            self._consumer.commit(asynchronous=True)
        # `consume` waits until it has all that it may return, so a lone message is polled for.
        first = self._consumer.poll(timeout_s)
        if first is None:
            self._has_read = False
            return []
        found = [first, *self._consumer.consume(self._most - 1, 0)] if self._most > 1 else [first]
        for message in found:
            if message.error() is not None:
                raise confluent_kafka.KafkaException(message.error())
        self._has_read = True
        return [message.value() for message in found]

    def listen(self, take: Callable[[Bytes], None]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._consumer.close()


def open_sender(order: Order, fates: Fates) -> tuple[KafkaSender, dict[str, str]]:
    """See `load.client.OpenSender`."""
    return KafkaSender(order, fates), _versions()


def open_reader(order: Order) -> tuple[KafkaReader, dict[str, str]]:
    """See `load.client.OpenReader`."""
    return KafkaReader(order), _versions()


if __name__ == "__main__":
    main(open_sender, open_reader)
