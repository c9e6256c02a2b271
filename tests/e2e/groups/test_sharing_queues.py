"""Consumer groups on a real store: who has which queue, and what comes again."""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import subprocess
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import pytest
from e2e.groups.members import QUEUES, drain, numbers, send, settle
from support.harness import LONG, PYTHON, StoreProcess, eventually

from silomq import Admin, Corrupt, GroupConsumer, IllegalMessage, Producer, SessionLost
from silomq.client.errors import StoreClosed
from silomq.client.groups.group_reader import GroupReader
from silomq.client.session import Connection
from silomq.shm.protocol.requests import Join, Start

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {"consumer_release_timeout_ms": 700}


def test_members_share_the_queues_and_every_message_comes_once(
    store: StoreProcess, topic: str
) -> None:
    with (
        GroupConsumer(store.path, "share", topic) as one,
        GroupConsumer(store.path, "share", topic) as two,
        GroupConsumer(store.path, "share", topic) as three,
    ):
        settle(one, two, three)
        assert not set(one.assignment) & set(two.assignment)
        send(store, topic, 800)
        found = drain(one, two, three)
        assert all(found)
        assert sorted(itertools.chain(*found)) == list(range(800))
        for its in found:
            for queue in range(QUEUES):
                mine = [i for i in its if i % QUEUES == queue]
                assert mine == sorted(mine)


def test_groups_do_not_know_each_other(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    for group in ("alone1", "alone2"):
        with GroupConsumer(store.path, group, topic, start="earliest") as member:
            assert sorted(drain(member)[0]) == list(range(80))


def test_a_member_that_leaves_hands_over_where_it_was(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    with GroupConsumer(store.path, "leave", topic, start="earliest", auto_ack=False) as one:
        settled = one.poll(80, 5.0)
        while len(settled) < 80:
            settled += one.poll(80, 1.0)
        kept = [m for m in settled if int(m.body) % 3 == 0]
        assert one.ack(kept) == len(kept)
        assert one.ack(kept) == 0, "acknowledged once is enough"
    with GroupConsumer(store.path, "leave", topic) as two:
        assert sorted(drain(two)[0]) == [i for i in range(80) if i % 3]


def test_polled_is_acknowledged_by_the_next_poll(store: StoreProcess, topic: str) -> None:
    send(store, topic, 8)
    member = GroupConsumer(store.path, "auto", topic, start="earliest")
    with contextlib.closing(member) as one:  # which acknowledges nothing
        first = one.poll(3, 5.0)
        second = one.poll(3, 5.0)
        assert len(first) == len(second) == 3
    with GroupConsumer(store.path, "auto", topic) as two:
        assert sorted(drain(two)[0]) == sorted(set(range(8)) - set(numbers(first)))


def test_iteration_acknowledges_one_by_one(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    member = GroupConsumer(store.path, "iterate", topic, start="earliest")
    with contextlib.closing(member) as one:  # which acknowledges nothing
        seen = [int(m.body) for m in itertools.islice(one, 10)]
    with GroupConsumer(store.path, "iterate", topic) as two:
        # The tenth was with the caller, who did not ask for the next.
        assert sorted(drain(two)[0]) == sorted(set(range(40)) - set(seen[:9]))


def test_a_queue_has_one_owner_at_a_time(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    with GroupConsumer(store.path, "give", topic, start="earliest") as one:
        found = one.poll(80, 5.0)
        while len(found) < 80:
            found += one.poll(80, 5.0)
        last = one.poll(1)  # acknowledges all; what follows is in its hands
        assert last == []
        send(store, topic, 80)
        in_hand = one.poll(80, 5.0)
        with GroupConsumer(store.path, "give", topic) as two:
            assert two.poll(80, 0.3) == [], "all queues have an owner"
            seen, other = drain(one, two)
        assert sorted(numbers(in_hand) + seen + other) == list(range(80))
        assert other or len(in_hand) == 80


def test_what_was_read_ahead_goes_with_its_queue(store: StoreProcess, topic: str) -> None:
    send(store, topic, 80)
    path = store.path
    with GroupConsumer(path, "ahead", topic, start="earliest", auto_ack=False) as one:
        assert next(iter(one)).body == b"0"
        with GroupConsumer(path, "ahead", topic) as two:
            assert isinstance(one._reader, GroupReader)
            eventually(one._reader.membership.has_new_assignment, "a queue is revoked")
            found = numbers(one.poll(80, 10.0))
            eventually(lambda: len(two.assignment) > QUEUES // 2 or two.poll(1), "two has queues")
            other = {queue_id for name, queue_id in two.assignment if name == topic}
            assert len(other) == QUEUES // 2
            assert {number % QUEUES for number in found}.isdisjoint(other)


def test_a_known_group_gets_all_of_an_added_queue(store: StoreProcess, topic: str) -> None:
    """Also one that began with the latest messages, and one of which no member was there."""
    with GroupConsumer(store.path, "added", topic, start="latest") as member:
        settle(member)
    with Admin(store.path) as admin, Producer(store.path) as producer:
        admin.update_topic(topic, read_queues=QUEUES + 1, write_queues=QUEUES + 1)
        producer.send(topic, b"1", queue=QUEUES)
    with GroupConsumer(store.path, "added", topic, start="latest") as member:
        assert numbers(member.poll(10, 10.0)) == [1]


#: A process that takes messages and never acknowledges one.
CONSUME = """
import sys
from silomq import GroupConsumer
path, group, topic = sys.argv[1:]
member = GroupConsumer(path, group, topic, auto_ack=False)
while True:
    member.poll(10, 0.05)
    if any(t == topic for t, _ in member.assignment):
        print("ready", flush=True)
"""


def test_a_killed_member_is_replaced_within_a_second(store: StoreProcess, topic: str) -> None:
    command = [*PYTHON, "-c", CONSUME, str(store.path), "killed", topic]
    with GroupConsumer(store.path, "killed", topic) as one:
        settle(one)
        taken: list[float] = []
        while len(taken) < 3 and min(taken, default=1.0) >= 1.0:  # a busy machine may hold up one
            other = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert other.stdout is not None
            eventually(lambda: one.poll(1) == [] and len(one.assignment) < QUEUES, "they share")
            assert other.stdout.readline() == b"ready\n"
            send(store, topic, 80)
            found = drain(one)[0]
            assert 0 < len(found) < 80
            other.kill()
            start = time.monotonic()
            found += numbers(one.poll(100, 1.0))
            while len(found) < 80 and time.monotonic() - start < 10:
                found += numbers(one.poll(100, 0.05))
            taken.append(time.monotonic() - start)
            other.wait()
            other.stdout.close()
            assert sorted(found) == list(range(80))
            print(f"\nqueues of a killed member taken over and read in {1000 * taken[-1]:.0f} ms")
        assert min(taken) < 1.0


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=LONG), pytest.param(3, marks=LONG)])
def test_nothing_acknowledged_comes_again_after_everything_was_killed(
    tmp_path: Path, seed: int
) -> None:
    """Acknowledgements in any order, then SIGKILL for every process of the store at once."""
    rng = random.Random(seed)
    with StoreProcess(tmp_path / "store") as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", QUEUES)
        send(store, "t", 2000)
        acked: set[int] = set()
        for _ in range(3):
            with GroupConsumer(store.path, "g", "t", start="earliest", auto_ack=False) as member:
                while messages := member.poll(rng.randint(1, 700), 0.5):
                    assert not acked & set(numbers(messages)), "acknowledged, and came again"
                    chosen = rng.sample(messages, rng.randint(0, len(messages)))
                    assert member.ack(chosen) == len(chosen)
                    acked |= set(numbers(chosen))
                    if rng.random() < 0.2:
                        break
                store.crash()
                store.start()
        with GroupConsumer(store.path, "g", "t") as member:
            assert sorted(drain(member)[0]) == sorted(set(range(2000)) - acked)


def test_the_registry_may_be_killed_at_any_time(store: StoreProcess, topic: str) -> None:
    """Members come and go while registries die: each message to exactly one of them."""
    rng = random.Random(5)
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            store.replace("registry")
            time.sleep(rng.uniform(0.05, 0.2))

    with GroupConsumer(store.path, "registry", topic, start="earliest") as first:
        settle(first)
        killer = threading.Thread(target=kill)
        killer.start()
        found: list[int] = []
        try:
            for _ in range(15):
                send(store, topic, 40)
                with GroupConsumer(store.path, "registry", topic) as guest:
                    for _ in range(rng.randint(1, 8)):
                        found += numbers(guest.poll(20, 0.02))
                        found += numbers(first.poll(20, 0.02))
                    guest.ack_polled()
        finally:
            done.set()
            killer.join()
        found += drain(first, quiet_s=1.0)[0]
        assert sorted(found) == sorted(list(range(40)) * 15)


def test_who_does_not_give_back_in_time_is_put_out(store: StoreProcess, topic: str) -> None:
    with GroupConsumer(store.path, "slow", topic) as slow:
        settle(slow)
        with GroupConsumer(store.path, "slow", topic) as other:
            eventually(
                lambda: other.poll(1) == [] and len(other.assignment) > QUEUES / 2 + 1, "all"
            )
            with pytest.raises(SessionLost, match="give back a queue in time"):
                slow.poll(1, 1.0)


def test_broadcasting_gives_everything_to_everyone(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    with ExitStack() as members:
        both = [
            members.enter_context(
                GroupConsumer(
                    store.path, "all", topic, model="broadcasting", instance=name, start="earliest"
                )
            )
            for name in ("a", "b")
        ]
        assert [sorted(its) for its in drain(*both)] == [list(range(40))] * 2
    send(store, topic, 40)
    with GroupConsumer(
        store.path, "all", topic, model="broadcasting", instance="a", start="earliest"
    ) as again:
        assert sorted(drain(again)[0]) == list(range(40)), "where it was"
        with pytest.raises(IllegalMessage, match="has a broadcasting member a already"):
            GroupConsumer(store.path, "all", topic, model="broadcasting", instance="a")
    with GroupConsumer(store.path, "all", topic, model="broadcasting", start="earliest") as nobody:
        assert sorted(drain(nobody)[0]) == sorted([*range(40), *range(40)])


def test_broadcasting_members_without_a_name_share_nothing(store: StoreProcess, topic: str) -> None:
    def nameless(start: Literal["earliest", "latest"]) -> GroupConsumer:
        return GroupConsumer(store.path, "some", topic, model="broadcasting", start=start)

    send(store, topic, 40)
    with nameless("earliest") as one, nameless("latest") as two:
        assert [sorted(its) for its in drain(one, two)] == [list(range(40)), []]
        one.close()
        send(store, topic, 8)
        assert sorted(drain(two)[0]) == list(range(8))
    with nameless("latest") as three:
        assert drain(three) == [[]]


def test_nothing_is_kept_of_members_without_a_name(tmp_path: Path) -> None:
    """Also when they could not leave: the store was killed."""
    ours = tmp_path / "store" / "silomq"
    with StoreProcess(tmp_path / "store", flush_consumer_offset_interval_ms=100) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", QUEUES)
        send(store, "t", 40)
        with GroupConsumer(
            store.path, "g", "t", model="broadcasting", instance="a", start="earliest"
        ) as member:
            assert sorted(drain(member)[0]) == list(range(40))
        nameless = GroupConsumer(store.path, "g", "t", model="broadcasting", start="earliest")
        assert sorted(drain(nameless)[0]) == list(range(40))
        assert len(list((ours / "groups").iterdir())) > 0, "its ack file, while it lives"
        store.crash()
        store.start()
        eventually(lambda: not list((ours / "groups").iterdir()), "the ack files are folded in")
        kept = (ours / "broadcastOffset.json").read_text()
        assert re.findall(r"t@[^\"]*", kept) == ["t@%BROADCAST%a%g"]
        with contextlib.suppress(StoreClosed, SessionLost):
            nameless.close()


def test_iteration_says_that_the_member_was_put_out(store: StoreProcess, topic: str) -> None:
    send(store, topic, 8)
    with GroupConsumer(store.path, "loop", topic, start="earliest") as slow:
        messages = iter(slow)
        next(messages)
        with GroupConsumer(store.path, "loop", topic) as other:
            eventually(
                lambda: other.poll(1) is not None and len(other.assignment) == QUEUES + 1, "all"
            )
            with pytest.raises(SessionLost, match="give back a queue in time"):
                for _ in messages:
                    pass


def test_joining_may_be_asked_for_twice(store: StoreProcess, topic: str) -> None:
    """As a client does whose registry was killed before it could answer."""
    request = Join("twice", "clustering", {topic: ("TAG", "*")}, Start("earliest"))
    link = Connection(store.path)
    first = link.request(request)
    store.replace("registry")
    again = link.request(request)
    link.close()
    assert first.retry_max_times == again.retry_max_times == 16


@pytest.mark.parametrize("auto_ack", [True, False])
def test_damage_in_one_queue_costs_no_message_of_another(tmp_path: Path, auto_ack: bool) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)
        with Producer(store.path) as producer:
            sent = [producer.send("t", b"%d" % i, queue=i % 2) for i in range(8)]
        store.await_dispatch()
        with (store.path / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(sent[5].physical_offset + 88)  # the body
            file.write(b"!")
        with GroupConsumer(
            store.path, "g", "t", start="earliest", auto_ack=auto_ack, check_crc=True
        ) as member:
            found: list[int] = []
            places: set[int] = set()  # of the damaged messages that were met
            deadline = time.monotonic() + 10
            while (len(found) < 6 or not places) and time.monotonic() < deadline:
                try:
                    found += numbers(member.poll(100, 0.2))
                except Corrupt as error:
                    places.add(error.offset)
            assert sorted(found) == [0, 1, 2, 3, 4, 6]
            assert places == {sent[5].physical_offset}
