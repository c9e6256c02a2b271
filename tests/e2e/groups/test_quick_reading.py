"""Listeners, iterations and polls that read quickly lose and double nothing."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES, member_of, numbers, rest, send
from support.cleaned_stores import await_durable, await_runs
from support.harness import StoreProcess, eventually
from support.small_settings import BY_HAND

from silomq import Admin, Corrupt, GroupConsumer, Producer, Sql
from silomq.client.groups.group_reader import GroupReader
from silomq.shm._words import Word, wait_any
from silomq.store.filters.tags import SqlFilter

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import MessageView
    from silomq.store.filters.tags import Filterable


def test_a_queue_that_is_revoked_and_kept_is_called_back_for_once(
    store: StoreProcess, group: str
) -> None:
    """Another member joins and leaves while callbacks of one queue run. What was read of the other
    queue before is read again, so it must not be called back for as well.
    """
    topic = f"{group}-of-two"
    with Admin(store.path) as admin, Producer(store.path) as producer:
        admin.create_topic(topic, 2)
        for i in range(40):
            producer.send_oneway(topic, b"%d" % i, queue=i % 2)
    store.await_dispatch()
    calls: list[int] = []
    begun, is_revoked, has_left = threading.Event(), threading.Event(), threading.Event()

    with member_of(store, group, topic) as member:
        reader = member._reader
        assert isinstance(reader, GroupReader)

        def callback(message: MessageView) -> None:
            calls.append(int(message.body))
            begun.set()
            if not has_left.is_set() and any(one.revoked for one in reader.queues):
                is_revoked.set()
                has_left.wait(30.0)
            time.sleep(0.05)  # the registry changes its mind meanwhile

        member.listen(callback)
        assert begun.wait(30.0)
        with member_of(store, group, topic):
            assert is_revoked.wait(30.0)
        with Admin(store.path) as admin:
            eventually(lambda: len(admin.group(group).members) == 1, "the other one has left")
        has_left.set()
        eventually(lambda: len(set(calls)) == 40, "all messages")
        time.sleep(0.5)
    assert {number: count for number, count in Counter(calls).items() if count > 1} == {}
    assert rest(store, group, topic) == []


def test_old_files_are_leased_until_all_in_them_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log rolls within a callback, and clean runs before the listener is back."""
    settings = BY_HAND | {"lock_mapped_file_enable": "false"}
    with StoreProcess(tmp_path / "store", **settings) as store, Admin(store.path) as admin:
        admin.create_topic("t", 1)
        admin.create_topic("other", 1)
        producer = Producer(store.path)
        calls: list[int] = []
        begun, go = threading.Event(), threading.Event()
        numbers = itertools.count()
        is_slow = False

        def more(count: int, topic: str) -> None:
            for _ in range(count):
                number = b"%d " % next(numbers) if topic == "t" else b""
                producer.send(topic, number + bytes(900))
            store.await_dispatch()

        def callback(message: MessageView) -> None:
            nonlocal is_slow
            number = int(message.body.split()[0])
            calls.append(number)
            if number == 0:
                begun.set()
                go.wait(30.0)
            if number == 30:
                is_slow = True
                more(200, "t")
            is_slow = is_slow and number < 229

        def slow(words: list[Word], seen: list[int], timeout_s: float) -> None:
            if is_slow:  # as if the thread had lost its core here
                await_durable(store)
                admin.clean()
                await_runs(store)
            wait_any(words, seen, timeout_s)

        monkeypatch.setattr("silomq.client.groups.group_reader.wait_any", slow)
        with producer, GroupConsumer(store.path, "g", "t", start="earliest") as member:
            member.listen(callback)
            eventually(lambda: len(member.assignment) == 2, "queues")
            more(1, "t")
            assert begun.wait(30.0)
            more(30, "t")
            more(201, "other")  # now the messages are in an old file
            go.set()
            eventually(lambda: len(calls) + member.missed >= 231, "all messages")
            assert (calls, member.missed) == (list(range(231)), 0)


@pytest.mark.parametrize("iterates", [False, True])
def test_a_batch_of_which_nothing_passes_the_filter_ends_no_reading(
    store: StoreProcess, topic: str, group: str, iterates: bool
) -> None:
    found: list[int] = []
    with GroupConsumer(store.path, group, {topic: Sql("wanted = 'yes'")}) as member:

        def iterate() -> None:
            found.extend(int(message.body) for message in member)

        thread = threading.Thread(target=iterate)
        if iterates:
            thread.start()
        else:
            member.listen(lambda message: found.append(int(message.body)))
        eventually(lambda: member.assignment, "queues")
        with Producer(store.path) as producer:
            for i in range(20):
                for _ in range(300):
                    producer.send_oneway(topic, b"-1", queue=0, properties={"wanted": "no"})
                producer.send(topic, b"%d" % i, queue=0, properties={"wanted": "yes"})
        eventually(lambda: len(found) == 20, "all that pass")
        assert found == list(range(20))
        member.close()
        if iterates:
            thread.join(30.0)
            assert not thread.is_alive()


@pytest.mark.parametrize("polls", [False, True])
def test_a_damaged_message_costs_none_that_pass_the_filter(tmp_path: Path, polls: bool) -> None:
    """The filter looks into the record, which is damaged; those before it come first."""
    with StoreProcess(tmp_path / "store") as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 1)
        member = GroupConsumer(store.path, "g", {"t": "A"}, start="earliest")
        with member, Producer(store.path) as producer:
            producer.send("t", b"0", tags="A")
            store.await_dispatch()
            messages = iter(member)

            def read() -> list[int]:
                return numbers(member.poll(100, 10.0) if polls else [next(messages)])

            assert read() == [0]
            sent = [producer.send("t", b"%d" % i, tags="A") for i in range(1, 10)]
            store.await_dispatch()
            with (store.path / "commitlog" / f"{0:020d}").open("r+b") as file:
                file.seek(sent[4].physical_offset)
                file.write(bytes(4))  # its size
            found: list[int] = []
            while len(found) < 4:
                found += read()
            assert found == [1, 2, 3, 4]
            for _ in range(2):
                with pytest.raises(Corrupt):
                    read()
                messages = iter(member)
        with Admin(store.path) as admin:
            offsets = {queue.topic: queue.offset for queue in admin.group("g").queues}
        assert offsets["t"] == 5, "nothing behind the damage is acknowledged"


def test_an_iteration_ends_when_another_thread_closes_its_consumer(
    store: StoreProcess, topic: str, group: str
) -> None:
    send(store, topic, 80)
    with member_of(store, group, topic) as member:
        messages = iter(member)
        first = int(next(messages).body)
        closing = threading.Thread(target=member.close)
        closing.start()
        closing.join()
        assert list(messages) == []
    assert len(rest(store, group, topic)) >= 79, f"{first} alone may be acknowledged"


@pytest.mark.parametrize("polls", [False, True])
def test_what_comes_while_another_thread_acknowledges_is_acknowledged_later(
    store: StoreProcess, topic: str, group: str, polls: bool
) -> None:
    count = 80
    found: list[int] = []
    with member_of(store, group, topic, auto_ack=False) as member:

        def read() -> None:
            messages = iter(member)
            while len(found) < count:
                found.extend(numbers(member.poll(4, 30.0) if polls else [next(messages)]))

        def send_one(producer: Producer, number: int) -> None:
            producer.send(topic, b"%d" % number, queue=number % QUEUES)
            eventually(lambda: len(found) > number, "the message has come")
            time.sleep(0.001)  # the reader waits for the next one
            member.ack_polled()

        reader = threading.Thread(target=read)
        reader.start()
        with Producer(store.path) as producer:
            for i in range(count):
                send_one(producer, i)
        reader.join()
        member.ack_polled()
    assert sorted(found) == [*range(count)]
    assert rest(store, group, topic) == []


@pytest.mark.parametrize("as_rows", [False, True])
def test_what_was_read_before_an_interrupt_comes_again(
    store: StoreProcess, topic: str, group: str, as_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter is interrupted in one queue, when those of other queues were read."""
    send(store, topic, 40, tags="A")
    member = GroupConsumer(store.path, group, {topic: Sql("TAGS = 'A'")}, start="earliest")
    with member:
        matches = SqlFilter.matches
        asked = 0

        def interrupted(self: SqlFilter, message: Filterable) -> bool:
            nonlocal asked
            asked += 1
            if asked == 12:  # a queue has five
                raise KeyboardInterrupt
            return matches(self, message)

        monkeypatch.setattr(SqlFilter, "matches", interrupted)

        def read() -> list[int]:
            if as_rows:
                rows = member.poll_arrow(100, 1.0, columns=["body"])
                return [int(body) for body in rows.column("body").to_pylist()]
            return numbers(member.poll(100, 1.0))

        with pytest.raises(KeyboardInterrupt):
            eventually(read, "messages")
        found: list[int] = []
        while more := read():
            found += more
    assert sorted(found) == [*range(40)]
