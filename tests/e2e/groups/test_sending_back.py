"""What a member has in hand: it can be sent back until it is acknowledged, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES, drain, member_of, numbers, rest, send, settle, take
from support.harness import PYTHON, StoreProcess, eventually

from silomq import (
    Admin,
    Consumer,
    GroupConsumer,
    IllegalMessage,
    NotHandedOut,
    PutMessageStatus,
)
from silomq.client.groups import retry
from silomq.store.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from silomq import MessageView, SendResult


def dead_letters(store: StoreProcess, group: str) -> list[int]:
    store.await_dispatch()
    with Consumer(store.path, f"%DLQ%{group}") as consumer:
        return sorted(numbers(consumer.poll(1000, 5.0)))


# -- what can be sent back


@pytest.mark.parametrize("auto_ack", [True, False])
def test_every_polled_message_can_be_sent_back(
    store: StoreProcess, topic: str, group: str, *, auto_ack: bool
) -> None:
    with member_of(store, group, topic, auto_ack=auto_ack) as member:
        settle(member)
        send(store, topic, 5)
        found = member.poll(5, 5.0)
        for message in found:
            result = member.nack(message, delay_level=1)
            assert (result.topic, result.status) == (SCHEDULE_TOPIC, PutMessageStatus.PUT_OK)
        again: list[MessageView] = []
        while len(again) < 5:
            again += member.poll(10, 10.0)
        assert sorted(numbers(again)) == sorted(numbers(found)) == list(range(5))
        assert {message.reconsume_times for message in again} == {1}
        member.ack(again)
    assert rest(store, group, topic) == []


def test_an_iteration_and_a_callback_may_send_back(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 6)
    with member_of(store, group, topic) as member:
        for message in itertools.islice(member, 3):
            member.nack(message, delay_level=-1)
    heard = threading.Semaphore(0)

    def callback(message: MessageView) -> None:
        member.nack(message, delay_level=-1)
        heard.release()
        raise RuntimeError("as a callback may that has done with its message")

    with member_of(store, group, topic) as member:
        member.listen(callback)
        for _ in range(3):
            assert heard.acquire(timeout=30.0)
    assert dead_letters(store, group) == list(range(6))
    assert rest(store, group, topic) == []


def test_what_cannot_be_sent_back_raises(store: StoreProcess, topic: str, group: str) -> None:
    send(store, topic, 8)
    with (
        member_of(store, group, topic, auto_ack=False) as member,
        Consumer(store.path, topic) as reader,
    ):
        acknowledged, sent_back, *kept = take(member, 4)
        member.ack(acknowledged)
        member.nack(sent_back, delay_level=-1)
        for message in (acknowledged, sent_back):
            with pytest.raises(NotHandedOut, match="acknowledged already"):
                member.nack(message)
        have = {(m.queue_id, m.queue_offset) for m in (acknowledged, sent_back, *kept)}
        (not_mine, *_) = [
            m for m in reader.poll(8, 5.0) if (m.queue_id, m.queue_offset) not in have
        ]
        with pytest.raises(NotHandedOut, match="has not handed it out"):
            member.nack(not_mine)
        assert member.ack(not_mine) == 0
        with member_of(store, group, topic, auto_ack=False) as other:

            def shared() -> bool:
                kept.extend(member.poll(8))
                other.poll(8)
                return bool(other.assignment) and len(member.assignment) < QUEUES

            eventually(shared, "the other has some of the queues")
            gone = next(m for m in kept if (topic, m.queue_id) not in member.assignment)
            with pytest.raises(NotHandedOut, match="not assigned to this consumer"):
                member.nack(gone)
            assert member.ack(gone) == 0
    assert dead_letters(store, group) == numbers([sent_back])


def test_a_row_of_a_batch_cannot_be_sent_back(store: StoreProcess, topic: str, group: str) -> None:
    pytest.importorskip("pyarrow")
    send(store, topic, 40)
    with (
        Consumer(store.path, topic) as reader,
        contextlib.closing(member_of(store, group, topic)) as member,
    ):
        found = 0
        while found < 40:
            found += member.poll_arrow(40, 10.0).num_rows
        for message in reader.poll(40, 5.0):
            with pytest.raises(NotHandedOut):
                member.nack(message)
            assert member.ack(message) == 0, "a batch is acknowledged as a whole"
    assert rest(store, group, topic) == list(range(40))


# -- when it is acknowledged


def test_sent_back_comes_before_acknowledged(
    store: StoreProcess, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is being sent, the message is not acknowledged, whatever other threads do."""
    send(store, topic, 8)
    real = retry.send_back
    seen: list[int] = []

    def spy(*args: object, **kwargs: object) -> SendResult:
        with Admin(store.path) as admin:
            seen.append(admin.group(group).lag)
        member.ack_polled()  # as a poll of another thread does
        with Admin(store.path) as admin:
            seen.append(admin.group(group).lag)
        with pytest.raises(NotHandedOut):
            member.nack(message)
        assert member.ack(message) == 0
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(retry, "send_back", spy)
    with member_of(store, group, topic) as member:
        (message,) = take(member, 1)
        member.nack(message, delay_level=-1)
        with Admin(store.path) as admin:
            seen.append(admin.group(group).lag)
    assert seen == [8, 8, 7]


def test_a_message_that_the_store_does_not_take_back_is_not_lost(
    store: StoreProcess, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(store, topic, 8)

    def refused(*_: object, **__: object) -> SendResult:
        raise IllegalMessage(PutMessageStatus.SERVICE_NOT_AVAILABLE, "the disk is full")

    with contextlib.closing(member_of(store, group, topic)) as member:
        found = take(member, 8)
        with monkeypatch.context() as patch:
            patch.setattr(retry, "send_back", refused)
            for message in found:
                with pytest.raises(IllegalMessage):
                    member.nack(message)
        member.nack(found[3], delay_level=-1)  # it is still in hand
    assert rest(store, group, topic) == sorted(set(range(8)) - set(numbers(found[3:4])))


#: A process that sends one message of three back, and then waits to be killed.
NACK = """
import sys
from silomq import GroupConsumer
path, group, topic = sys.argv[1:]
member = GroupConsumer(path, group, topic, start="earliest")
chosen = member.poll(8, 10.0)[5]
member.nack(chosen, delay_level=-1)
print(int(chosen.body), flush=True)
sys.stdin.read()
"""


def test_a_crash_after_sending_back_brings_all_but_that_message(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 8)
    command = [*PYTHON, "-c", NACK, str(store.path), group, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        chosen = int(process.stdout.readline())
        process.kill()
    assert rest(store, group, topic) == sorted(set(range(8)) - {chosen})
    assert dead_letters(store, group) == [chosen]


# -- iterations that end early


@pytest.mark.parametrize("how", ["with", "poll", "iterate", "ack_polled", "arrow"])
def test_what_an_iteration_has_read_ahead_is_not_lost(
    store: StoreProcess, topic: str, group: str, how: str
) -> None:
    """It has yielded three of the messages that it has read. The third was with the caller, who
    asked for something else next, or left the block.
    """
    if how == "arrow":
        pytest.importorskip("pyarrow")
    send(store, topic, 40)
    with member_of(store, group, topic) as member:
        seen = numbers(list(itertools.islice(member, 3)))
        if how == "poll":
            seen += numbers(member.poll(10, 5.0))
        elif how == "iterate":
            seen += numbers(list(itertools.islice(member, 5)))
        elif how == "arrow":
            batch = member.poll_arrow(10, 5.0, columns=["body"])
            seen += [int(body) for body in batch.column("body").to_pylist()]
        elif how == "ack_polled":
            member.ack_polled()
    assert len(set(seen)) == len(seen)
    assert rest(store, group, topic) == sorted(set(range(40)) - set(seen))


def test_polls_within_an_iteration_keep_the_order(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 80)
    with member_of(store, group, topic) as member:
        messages = iter(member)
        seen: list[int] = []
        while len(seen) < 80:
            seen += numbers([next(messages)])
            seen += numbers(member.poll(3, 0.0))
    assert sorted(seen) == list(range(80))
    for queue in range(QUEUES):
        mine = [number for number in seen if number % QUEUES == queue]
        assert mine == sorted(mine)


def test_without_auto_ack_all_that_was_read_ahead_comes_again(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 40)
    with member_of(store, group, topic, auto_ack=False) as member:
        seen = numbers(list(itertools.islice(member, 3)))
        member.ack_polled()
        later = numbers(list(itertools.islice(member, 3)))
    assert not set(seen) & set(later)
    assert rest(store, group, topic) == sorted(set(range(40)) - set(seen))


def test_a_task_that_is_cancelled_while_it_waits_loses_nothing(
    store: StoreProcess, topic: str, group: str
) -> None:
    """Messages come just when the task is cancelled: the thread that waited for it has them."""

    async def wait_for_one(member: GroupConsumer) -> None:
        async for message in member:
            seen.extend(numbers([message]))

    async def cancel_in_time(member: GroupConsumer) -> None:
        for number in range(5):
            task = asyncio.create_task(wait_for_one(member))
            await asyncio.sleep(0.02)
            await asyncio.to_thread(send, store, topic, 8)
            if number % 2:
                await asyncio.sleep(0.005)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    seen: list[int] = []
    with member_of(store, group, topic) as member:
        settle(member)
        asyncio.run(cancel_in_time(member))
        seen += drain(member, quiet_s=1.5)[0]
    assert sorted(set(seen)) == list(range(8))
    assert len(seen) >= 40
    assert rest(store, group, topic) == []


def test_listening_goes_on_where_an_iteration_was(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 40)
    seen: list[int] = []
    with member_of(store, group, topic) as member:
        seen += numbers(list(itertools.islice(member, 3)))
        member.listen(lambda message: seen.append(int(message.body)))
        eventually(lambda: len(seen) == 40, "the rest")
        with pytest.raises(RuntimeError, match="go to the callback"):
            next(iter(member))
    assert sorted(seen) == list(range(40))
    assert rest(store, group, topic) == []
