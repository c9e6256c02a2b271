"""What comes just before a bell is armed is not missed: whoever arms it looks once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.bells import is_readable
from support.harness import eventually

from silomq import Admin, Consumer, GroupConsumer, Producer
from silomq.client.producing._sender import session_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.harness import StoreProcess

    from silomq.client._bell import Bell


class JustBefore:
    """A client's bell, and something that happens once just before it is armed."""

    def __init__(self, bell: Bell, happens: Callable[[], object]) -> None:
        self._bell = bell
        self._happens: Callable[[], object] | None = happens
        self.fd = bell.fd

    def drain(self) -> bool:
        return self._bell.drain()

    def arm(self, reasons: int) -> None:
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        self._bell.arm(reasons)


@pytest.mark.parametrize("member", [False, True])
def test_a_message_comes_before_its_reader_sleeps(
    store: StoreProcess, topic: str, *, member: bool
) -> None:
    with Admin(store.path) as admin:
        admin.create_topic(topic, 1)
    made: Any = (
        GroupConsumer(store.path, f"g-{topic}", topic, start="earliest")
        if member
        else Consumer(store.path, topic)
    )
    with made as reader, Producer(store.path) as producer:
        if member:
            eventually(lambda: reader.poll() or reader.assignment, "its queue")
        while is_readable(reader.fileno(), 0.1):
            reader.poll()

        def comes() -> None:
            producer.send(topic, b"x")
            store.await_dispatch()

        comes()
        assert is_readable(reader.fileno(), 5.0)
        assert reader.poll(), "the bell was rung for this sleep, and rings for no second message"
        owner = reader._reader if member else reader
        owner._bell = JustBefore(owner._bell, comes)
        found = reader.poll()
        assert found or is_readable(reader.fileno()), "it sleeps, and the message is there"


def test_an_answer_comes_before_its_producer_sleeps(store: StoreProcess, topic: str) -> None:
    """Whenever it comes: the future is done, or the descriptor is readable."""
    with Producer(store.path) as producer:
        fd = producer.fileno()
        for _ in range(3000):
            future = producer.send_async(topic, b"x")
            while not future.done():
                assert is_readable(fd, 5.0)
        assert session_of(producer).ring.synced
