"""Messages and queues of topics that change, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq import Admin, Consumer, Producer
from silomq.tools.raw.files import read_settings
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from support.harness import StoreProcess


def send(store: StoreProcess, topic: str, bodies: list[str], queue: int = 0) -> None:
    with Producer(store.path) as producer:
        for body in bodies:
            producer.send(topic, body, queue=queue)


def read(store: StoreProcess, topic: str, count: int) -> dict[int, list[tuple[int, str]]]:
    """Waits for `count` messages: queue id -> (queue offset, body); there must be no more."""
    found: dict[int, list[tuple[int, str]]] = {}
    with Consumer(store.path, topic) as consumer:
        got = 0
        while got < count:
            messages = consumer.poll(100, 10.0)
            assert messages, f"{got} of {count} messages"
            for message in messages:
                entry = (message.queue_offset, message.body.decode())
                found.setdefault(message.queue_id, []).append(entry)
                got += 1
        assert consumer.poll(100, 0.05) == []
    assert got == count
    return found


def assert_sound(store: StoreProcess) -> None:
    overrides = [f"{name}={value}" for name, value in store.settings.items()]
    report = verify(store.path, read_settings(None, overrides))
    assert report.sound, report.findings


def numbers(store: StoreProcess, topic: str) -> tuple[int, int, int]:
    with Admin(store.path) as admin:
        found = admin.topic(topic)
        assert found.messages == sum(q.max_offset - q.min_offset for q in found.queues if q.read)
        return found.write_queues, found.read_queues, len(found.queues)
