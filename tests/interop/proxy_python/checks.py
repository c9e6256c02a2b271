"""What RocketMQ's gRPC client for Python does at a proxy. The arguments are the proxy's address and
names of topics. A topic is called as its check, behind the first dash, and has a group of its name.
Each check prints `passed TOPIC`, or `failed TOPIC` and why. They run at the same time.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.v5.exception import InternalErrorException

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAIT_S = 2
_SOON_S = 30.0
_INVISIBLE_S = 30
_place = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=10)


class Asked(TransactionChecker):  # type: ignore[misc]
    """Decides by the body, and keeps what it was asked."""

    def __init__(self) -> None:
        self.bodies: queue.Queue[str] = queue.Queue()

    def check(self, message: Any) -> Any:
        self.bodies.put(message.body.decode())
        good = message.body == b"good"
        return TransactionResolution.COMMIT if good else TransactionResolution.ROLLBACK


@contextlib.contextmanager
def clients(topic: str, checker: Asked | None = None) -> Iterator[tuple[Any, Any]]:
    producer = Producer(_place, (topic,), checker)
    consumer = SimpleConsumer(_place, topic, {topic: FilterExpression()}, _WAIT_S)
    producer.startup()
    consumer.startup()
    try:
        wait_for_settings(consumer)
        yield producer, consumer
    finally:
        consumer.shutdown()
        producer.shutdown()


def wait_for_settings(consumer: Any) -> None:
    """The client does not wait until the proxy has its settings: until then requests fail."""
    end = time.monotonic() + _SOON_S
    while True:
        try:
            found = consumer.receive(1, _INVISIBLE_S)
        except InternalErrorException:
            assert time.monotonic() < end, "the proxy does not learn the client's settings"
            time.sleep(0.2)
        else:
            assert not found, "the topic is new"
            return


def made(topic: str, body: str, **more: object) -> Any:
    message = Message()
    message.topic = topic
    message.body = body.encode()
    for name, value in more.items():
        setattr(message, name, value)
    return message


def receive(consumer: Any, count: int, invisible_s: int = _INVISIBLE_S) -> list[Any]:
    """Receives until there are so many, or fails."""
    found: list[Any] = []
    end = time.monotonic() + _SOON_S
    while len(found) < count:
        assert time.monotonic() < end, f"received {len(found)} of {count}"
        found += consumer.receive(16, invisible_s) or ()
    return found


def nothing_comes(consumer: Any) -> None:
    """A few more receives, as each asks one queue."""
    for _ in range(3):
        found = consumer.receive(16, _INVISIBLE_S) or ()
        assert not found, [one.body for one in found]


def simple(topic: str) -> None:
    """Everything of a message arrives; what is acknowledged does not come again."""
    with clients(topic) as (producer, consumer):
        sent = [f"m{number}" for number in range(10, 30)]
        for body in sent:
            message = made(topic, body, tag="t", keys=f"key-{body}")
            message.add_property("p", body)
            producer.send(message)
        found = receive(consumer, len(sent), 10)
        assert sorted(one.body.decode() for one in found) == sent
        for one in found:
            body = one.body.decode()
            assert (one.tag, set(one.keys), one.delivery_attempt) == ("t", {f"key-{body}"}, 1)
            assert one.properties["p"] == body
            consumer.ack(one)
        end = time.monotonic() + 11
        while time.monotonic() < end:
            nothing_comes(consumer)


def invisible(topic: str) -> None:
    """What is not acknowledged comes again, after a time that may be changed."""
    with clients(topic) as (producer, consumer):
        producer.send(made(topic, "again"))
        (first,) = receive(consumer, 1)
        begin = time.monotonic()
        consumer.change_invisible_duration(first, 3)
        (second,) = receive(consumer, 1, 10)
        assert time.monotonic() - begin >= 2.9
        assert (second.message_id, second.delivery_attempt) == (first.message_id, 2)
        (third,) = receive(consumer, 1)
        assert (third.message_id, third.delivery_attempt) == (first.message_id, 3)
        consumer.ack(third)


def delay(topic: str) -> None:
    with clients(topic) as (producer, consumer):
        due = int(time.time()) + 4
        producer.send(made(topic, "later", delivery_timestamp=due))
        (found,) = receive(consumer, 1)
        assert time.time() >= due - 0.1
        consumer.ack(found)


def transaction(topic: str) -> None:
    with clients(topic, Asked()) as (producer, consumer):
        decided = [producer.begin_transaction() for _ in range(2)]
        for body, one in zip(("kept", "dropped"), decided, strict=True):
            producer.send(made(topic, body), one)
        decided[1].rollback()
        decided[0].commit()
        (found,) = receive(consumer, 1)
        assert found.body == b"kept"
        consumer.ack(found)
        nothing_comes(consumer)


def forgotten(topic: str) -> None:
    """The broker asks the proxy, and the proxy the producer, what became of a transaction."""
    asked = Asked()
    with clients(topic, asked) as (producer, consumer):
        for body in ("bad", "good"):
            producer.send(made(topic, body), producer.begin_transaction())
        (found,) = receive(consumer, 1)
        assert found.body == b"good"
        consumer.ack(found)
        told: set[str] = set()
        while told != {"bad", "good"}:
            told.add(asked.bodies.get(timeout=_SOON_S))
        nothing_comes(consumer)


_CHECKS = {one.__name__: one for one in (simple, invisible, delay, transaction, forgotten)}


def run(topic: str) -> None:
    try:
        _CHECKS[topic.partition("-")[2]](topic)
    except Exception:  # noqa: BLE001 - it is told
        traceback.print_exc()
        print(f"failed {topic}", flush=True)
    else:
        print(f"passed {topic}", flush=True)


if __name__ == "__main__":
    threads = [threading.Thread(target=run, args=(topic,)) for topic in sys.argv[2:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)  # the client's threads may stay
