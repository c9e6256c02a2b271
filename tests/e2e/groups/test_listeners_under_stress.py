"""Callbacks that do what callbacks do: raise anything, close their consumer, or meet a defect."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import drain, send
from support.harness import eventually

from silomq import GroupConsumer
from silomq.client.groups.group_reader import GroupReader

if TYPE_CHECKING:
    from support.harness import StoreProcess

    from silomq import MessageView


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_callback_ends_the_threads_of_a_listener(
    store: StoreProcess, topic: str, concurrency: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each first try ends in what would end a thread."""
    send(store, topic, 24)
    done: list[int] = []
    errors = (SystemExit, KeyboardInterrupt, GeneratorExit, ValueError)

    def callback(message: MessageView) -> None:
        number = int(message.body)
        if message.reconsume_times == 0:
            raise errors[number % len(errors)]
        done.append(number)

    with GroupConsumer(store.path, f"g-{topic}", topic, start="earliest") as member:
        listener = member.listen(callback, concurrency=concurrency, delay_level=1)
        eventually(lambda: sorted(done) == list(range(24)), "all came again")
        assert not listener.wait(0.0)
        assert listener.error is None
    assert all(error.__name__ in caplog.text for error in errors)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_callback_may_close_its_consumer(
    store: StoreProcess, topic: str, concurrency: int
) -> None:
    """Several at the same time, too: none waits for another."""
    send(store, topic, 40)
    group = f"g-{topic}"
    together = threading.Barrier(concurrency)
    seen: list[int] = []

    def callback(message: MessageView) -> None:
        seen.append(int(message.body))
        together.wait(30)
        member.close()

    member = GroupConsumer(store.path, group, topic, start="earliest")
    listener = member.listen(callback, concurrency=concurrency)
    assert listener.wait(60)
    eventually(lambda: not member._reader.is_open, "it has left")
    with GroupConsumer(store.path, group, topic) as other:
        (rest,) = drain(other)
    assert sorted(seen + rest) == list(range(40)), "what was called back is acknowledged"


def test_a_callback_may_stop_its_listener(store: StoreProcess, topic: str) -> None:
    send(store, topic, 8)
    with GroupConsumer(store.path, f"g-{topic}", topic, start="earliest") as member:
        listener = member.listen(lambda _: listener.stop())
        assert listener.wait(60)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_whatever_ends_a_listener_is_told(
    store: StoreProcess,
    topic: str,
    concurrency: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A defect of ours is one: it must not look like the listener's normal end."""
    send(store, topic, 8)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(GroupReader, "ack_in", broken)
    with GroupConsumer(store.path, f"g-{topic}", topic, start="earliest") as member:
        listener = member.listen(lambda _: None, concurrency=concurrency)
        with pytest.raises(ZeroDivisionError):
            listener.wait(60)
        assert isinstance(listener.error, ZeroDivisionError)
    assert "an error of its own" in caplog.text
