"""No message is slept through: what comes after the last look at the queues ends the sleep."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from e2e.groups.members import QUEUES, send, settle
from support.harness import eventually

from silomq import Admin, Consumer, GroupConsumer, Producer
from silomq.client.consuming import consumer as consumer_module
from silomq.client.groups import arrow_batches, group_reader
from silomq.client.groups.queue_listener import QueueListener

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from support.harness import StoreProcess


class Sleeps:
    """Stands for `wait_any` in a module. For each sleep it notes whether it would end at once,
    because a word has changed since the queues were looked at. It never sleeps.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
        self.end_at_once: list[bool] = []
        monkeypatch.setattr(module, "wait_any", self)

    def __call__(self, words: list[Any], seen: list[int], _timeout: float) -> None:
        self.end_at_once.append([word.load() for word in words] != seen)


class Late:
    """Wraps a method that reads: what `happen` does comes just after it has found nothing."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        owner: object,
        name: str,
        happen: Callable[[], None],
    ) -> None:
        self.read = getattr(owner, name)
        self.happen = happen
        self.happened = False
        monkeypatch.setattr(owner, name, self.call)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        found = self.read(*args, **kwargs)
        if not found and not self.happened:
            self.happened = True
            self.happen()
        return found


@pytest.mark.parametrize("call", ["poll", "poll_arrow", "iterate"])
def test_a_consumer_looks_again_before_it_sleeps(
    store: StoreProcess, topic: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    sleeps = Sleeps(monkeypatch, consumer_module)
    with Consumer(store.path, topic) as consumer:
        if call == "poll_arrow":
            pytest.importorskip("pyarrow")
            Late(monkeypatch, consumer_module, "fill_from", lambda: send(store, topic, 1))
            assert consumer.poll_arrow(1, 30.0).num_rows == 1
        else:
            Late(monkeypatch, consumer, "_take", lambda: send(store, topic, 1))
            if call == "poll":
                assert len(consumer.poll(1, 30.0)) == 1
            else:
                assert next(iter(consumer)).body == b"0"
    assert sleeps.end_at_once == [True]


@pytest.mark.parametrize("call", ["poll", "poll_arrow", "iterate"])
def test_a_member_looks_again_before_it_sleeps(
    store: StoreProcess, topic: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with GroupConsumer(store.path, f"g-{topic}", topic) as member:
        settle(member)
        sleeps = Sleeps(monkeypatch, group_reader)
        reader = member._reader
        if call == "poll_arrow":
            pytest.importorskip("pyarrow")
            real = arrow_batches.next_batch
            happened: list[bool] = []

            def next_batch(*args: Any, **options: Any) -> Any:
                found = real(*args, **options)
                if not happened:
                    happened.append(True)
                    send(store, topic, 1)
                return found

            monkeypatch.setattr(group_reader, "next_batch", next_batch)
            assert member.poll_arrow(1, 30.0).num_rows == 1
        else:
            Late(monkeypatch, reader, "_read_in_turn", lambda: send(store, topic, 1))
            if call == "poll":
                assert len(member.poll(1, 30.0)) == 1
            else:
                assert next(iter(member)).body == b"0"
    assert sleeps.end_at_once == [True]


def test_a_listener_looks_again_before_it_sleeps(
    store: StoreProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message comes when all queues were looked at: the first sleep ends at once."""
    called = threading.Event()
    with GroupConsumer(store.path, f"g-{topic}", topic) as member:
        settle(member)
        sleeps = Sleeps(monkeypatch, group_reader)
        real = QueueListener._gather
        happened: list[bool] = []

        def gather(listener: QueueListener) -> Any:
            found = real(listener)
            if not happened:
                happened.append(True)
                send(store, topic, 1)
            return found

        monkeypatch.setattr(QueueListener, "_gather", gather)
        member.listen(lambda _: called.set())
        assert called.wait(30.0)
    assert sleeps.end_at_once[0]


def test_a_member_looks_for_a_new_assignment_before_it_sleeps(
    store: StoreProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GroupConsumer(store.path, f"g-{topic}", topic) as member, Producer(store.path) as producer:
        settle(member)
        reader = member._reader
        assert isinstance(reader, group_reader.GroupReader)
        seen = reader.membership.notice_seen

        def another_queue() -> None:
            with Admin(store.path) as admin:
                admin.update_topic(topic, read_queues=QUEUES + 1, write_queues=QUEUES + 1)
            eventually(lambda: reader._link.notice.load() != seen, "the queues are divided again")
            producer.open_topic(topic)
            producer.send(topic, b"x", queue=QUEUES)

        sleeps = Sleeps(monkeypatch, group_reader)
        Late(monkeypatch, reader, "_read_in_turn", another_queue)
        assert len(member.poll(1, 30.0)) == 1
    assert sleeps.end_at_once[0], "no queue that it had got a message: the notice woke it"
