"""Members that pop: many workers share a queue, and what one does not acknowledge comes again."""

from __future__ import annotations

import itertools
import random
import select
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.commands import silo
from support.harness import StoreProcess, eventually, kill_now

from silomq import Admin, GroupConsumer, Producer
from silomq.client.errors import NotHandedOut, SessionLost, StoreClosed
from silomq.client.groups import popped_messages
from silomq.store.errors import IllegalArgument, IllegalMessage, IllegalUse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.client.consuming.message_view import MessageView


def send(store: StoreProcess, topic: str, count: int, **options: object) -> list[bytes]:
    bodies = [b"%05d" % number for number in range(count)]
    with Producer(store.path) as producer:
        for body in bodies:
            producer.send(topic, body)
    store.await_dispatch()
    return bodies


def member(store: StoreProcess, topic: str, **options: object) -> GroupConsumer:
    given = {"start": "earliest", "mode": "pop", "auto_ack": False, **options}
    return GroupConsumer(store.path, f"g-{topic}", topic, **given)  # type: ignore[arg-type]


def texts(messages: list[MessageView]) -> list[bytes]:
    return sorted(message.body for message in messages)


def offsets(store: StoreProcess, topic: str) -> int:
    """The sum of the group's offsets in the topic."""
    with Admin(store.path) as admin:
        found = admin.group(f"g-{topic}")
        return sum(queue.offset for queue in found.queues if queue.topic == topic)


def test_members_share_all_queues(store: StoreProcess, topic: str) -> None:
    bodies = send(store, topic, 300)
    with member(store, topic) as first, member(store, topic) as second:
        mine, theirs = first.poll(100), second.poll(1000)
        assert texts(mine + theirs) == bodies
        assert (len(mine), first.assignment, first.poll(100)) == (100, [], [])
        assert (first.ack(mine), first.ack(mine), first.ack(theirs)) == (100, 0, 0)
        assert second.ack(theirs[1:]) == 199
        assert offsets(store, topic) < 300
        second.ack_polled()
        assert offsets(store, topic) == 300


def test_it_comes_again_after_its_time(store: StoreProcess, topic: str) -> None:
    send(store, topic, 3)
    with member(store, topic, invisible=0.4) as first, member(store, topic) as second:
        began = time.monotonic()
        old = first.poll()
        assert first.ack(old[0]) == 1
        again = second.poll(timeout=10)
        took_s = time.monotonic() - began
        assert 0.4 <= took_s < 3, "neither before its time nor much later"
        assert texts(again) == texts(old[1:])
        assert {message.reconsume_times for message in again} == {1}
        assert first.ack(old) == 0, "it was handed out again"
        assert second.ack(again) == 2


def test_a_poll_acknowledges_what_the_last_one_returned(store: StoreProcess, topic: str) -> None:
    bodies = send(store, topic, 100)
    found: list[MessageView] = []
    with member(store, topic, auto_ack=True) as only:
        while messages := only.poll(7):
            found += messages
        assert texts(found) == bodies
    assert offsets(store, topic) == 100


def test_an_iteration_acknowledges_message_by_message(store: StoreProcess, topic: str) -> None:
    bodies = send(store, topic, 100)
    with member(store, topic, auto_ack=True) as first:
        taken = [message.body for message in itertools.islice(first, 50)]
    with member(store, topic, auto_ack=True) as second:
        rest = second.poll(1000, timeout=5)
        while more := second.poll(1000):
            rest += more
    assert sorted(taken + [message.body for message in rest]) == bodies
    assert offsets(store, topic) == 100
    assert {message.reconsume_times for message in rest} == {0}, "what was read ahead was unseen"


def test_it_is_sent_back_and_goes_to_the_dead_letters(
    store: StoreProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(popped_messages, "LEVELS_S", (0.1, 0.2))
    send(store, topic, 1)
    with member(store, topic, max_reconsume_times=2) as only:
        times = []
        for _ in range(3):
            (message,) = only.poll(timeout=10)
            times.append(message.reconsume_times)
            result = only.nack(message)
            assert (result.topic, result.queue_offset) == (topic, 0)
            assert result.message_id == message.message_id
            with pytest.raises(NotHandedOut):
                only.nack(message)
        assert times == [0, 1, 2]
        assert only.poll(timeout=1) == []
        send(store, topic, 1)
        (message,) = only.poll(timeout=10)
        only.nack(message, delay_level=-1)
    assert offsets(store, topic) == 2
    with member(store, f"%DLQ%g-{topic}") as dead:
        letters = dead.poll(timeout=10)
        assert [letter.body for letter in letters] == [b"00000", b"00000"]


def test_workers_are_listed(store: StoreProcess, topic: str) -> None:
    send(store, topic, 10)
    group = f"g-{topic}"
    with Admin(store.path) as admin, member(store, topic) as first, member(store, topic) as second:
        began_ms = int(time.time() * 1000)
        found = first.poll(4)
        second.poll(3)
        state = admin.group(group)
        assert [one.model for one in state.members] == ["pop", "pop"]
        assert state.leased == 7
        assert began_ms - 100 <= state.oldest_lease_ms <= time.time() * 1000
        assert {one.name: one.members for one in admin.groups()}[group] == 2
        said = silo("groups", group, store=store.path).stdout.decode()
        assert "Leased by members that pop: 7, the oldest for" in said
        first.ack(found)
        first.close()
        eventually(lambda: len(admin.group(group).members) == 1, "it has left")
        assert admin.group(group).leased == 3
    with Admin(store.path) as admin:
        eventually(lambda: not admin.group(group).members, "both have left")
        state = admin.group(group)
        assert (state.leased, state.oldest_lease_ms) == (0, 0)


def test_a_filter_and_a_closed_member(store: StoreProcess, topic: str) -> None:
    with Producer(store.path) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, tags="b" if number % 25 == 0 else "a")
    store.await_dispatch()

    def filtering() -> GroupConsumer:
        wanted = {topic: "b"}
        return GroupConsumer(
            store.path, f"g-{topic}", wanted, mode="pop", start="earliest", auto_ack=False
        )

    first = filtering()
    assert texts(first.poll(100)) == [b"0", b"25", b"50", b"75"]
    first.close()
    with pytest.raises(StoreClosed):
        first.poll()
    with filtering() as second:
        found = second.poll(100, timeout=5)
        assert texts(found) == [b"0", b"25", b"50", b"75"], "a closed member keeps nothing"
        second.ack(found)
    assert offsets(store, topic) == 100


def test_one_loop_for_everything(store: StoreProcess, topic: str) -> None:
    """The descriptor becomes readable for a message, and for the end of a lease."""
    send(store, topic, 1)
    with member(store, topic, invisible=0.5) as taker, member(store, topic) as waiter:
        assert len(taker.poll()) == 1
        fd = waiter.fileno()
        found: list[MessageView] = []
        deadline = time.monotonic() + 10
        while not found and time.monotonic() < deadline:
            found = waiter.poll()
            if not found:
                select.select([fd], [], [], 5)
        assert [message.reconsume_times for message in found] == [1]
        threading.Timer(0.1, send, (store, topic, 1)).start()
        waiter.ack(found)
        assert waiter.poll() == []
        assert select.select([fd], [], [], 10)[0]
        eventually(waiter.poll, "the new message")


def test_what_cannot_be(store: StoreProcess, topic: str) -> None:
    send(store, topic, 1)
    for wrong in (
        {"model": "broadcasting"}, {"instance": "x"}, {"invisible": 0}, {"invisible": None},
        {"start": 12345}, {"mode": "push"},
    ):  # fmt: skip
        with pytest.raises(IllegalArgument):
            member(store, topic, **wrong)
    with pytest.raises(IllegalMessage, match="does not exist"):
        member(store, "nothing")
    with member(store, topic) as only:
        with pytest.raises(IllegalUse):
            only.listen(print, orderly=True)
        only.poll()
        with pytest.raises(IllegalMessage, match="members that pop"):
            GroupConsumer(store.path, f"g-{topic}", topic)
    with GroupConsumer(store.path, f"h-{topic}", topic), pytest.raises(IllegalMessage):
        GroupConsumer(store.path, f"h-{topic}", topic, mode="pop")


_WORKER = """
import sys, time, random
from silomq import GroupConsumer
from silomq.client.errors import StoreClosed
store, topic, out = sys.argv[1:]
chance = random.Random()
while True:
    try:
        with GroupConsumer(store, "group", topic, mode="pop", start="earliest", invisible=1.0,
                           auto_ack=False) as member, open(out, "a") as done:
            while True:
                for message in member.poll(chance.randrange(1, 40), timeout=1.0):
                    if chance.random() < 0.9:
                        member.ack(message)
                        done.write(f"{message.body.decode()}\\n")
                        done.flush()
    except StoreClosed:
        time.sleep(0.05)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[StoreProcess]:
    """A store that a test kills."""
    with StoreProcess(tmp_path / "store") as found:
        yield found
        assert "Traceback" not in found.log(), found.log()[-5000:]


def test_nothing_is_lost_under_kills(
    own: StoreProcess, tmp_path: Path, *, long_forms: bool
) -> None:
    """Workers on one queue, the registry, and all processes at once are killed. Every message is
    acknowledged at last, and what was acknowledged never comes again.
    """
    count, chance = (20_000 if long_forms else 2000), random.Random(3)
    with Admin(own.path) as admin:
        admin.create_topic("work", 1)
    bodies = [body.decode() for body in send(own, "work", count)]
    outs = [tmp_path / f"out{number}" for number in range(3)]
    command = [sys.executable, "-P", "-c", _WORKER, str(own.path), "work"]
    workers = [subprocess.Popen([*command, str(out)]) for out in outs]
    try:
        for turn in range(30 if long_forms else 5):
            time.sleep(0.2 + chance.random() / 4)
            if turn % 5 == 4:
                own.crash()
                own.start()
            elif turn % 2:
                own.await_successor("registry", own.kill("registry"))
            else:
                victim = chance.randrange(len(workers))
                kill_now(workers[victim].pid)
                workers[victim].wait()
                workers[victim] = subprocess.Popen([*command, str(outs[victim])])

        def done() -> list[str]:
            return [line for out in outs if out.exists() for line in out.read_text().split()]

        # A worker that is killed between its acknowledgement and its note has acknowledged.
        eventually(lambda: _offset(own) == count, "all is acknowledged", 60)
        found = done()
        assert len(set(bodies) - set(found)) <= 40, "only what a killed worker did not note"
        assert len(found) == len(set(found)), "what was acknowledged came again"
    finally:
        for worker in workers:
            kill_now(worker.pid)
            worker.wait()


def _offset(store: StoreProcess) -> int:
    try:
        with Admin(store.path) as admin:
            return sum(queue.offset for queue in admin.group("group").queues)
    except (StoreClosed, SessionLost):
        return -1
