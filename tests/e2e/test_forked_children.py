"""Clients in a forked child: they refuse, hold nothing open, and leave the parent's alone."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from support.children import forked, in_child, open_files
from support.harness import PYTHON, StoreProcess, eventually

from silomq import (
    Admin,
    Consumer,
    ForkedChild,
    GroupConsumer,
    Producer,
    StoreReader,
    TransactionProducer,
)
from silomq.client.groups.group_reader import GroupReader
from silomq.client.producing._sender import session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOW = ("os.fork", "multiprocessing")
REQUEST = SimpleNamespace(properties={"CORRELATION_ID": "1", "REPLY_TO_CLIENT": "somebody"})


class Clients:
    """One client of each kind, used once, so that everything that it opens is open."""

    def __init__(self, store: StoreProcess, topic: str) -> None:
        self.before = open_files()
        self.topic = topic
        path = store.path
        self.path = str(path)
        self.admin = Admin(path)
        self.admin.create_topic(topic, 2)
        self.producer = Producer(path, timeout=30.0)
        for i in range(8):
            self.producer.send(topic, b"%d" % i, queue=i % 2)
        self.waiting = self.producer.send(topic, b"late", delay_ms=3_600_000)
        store.await_dispatch()
        self.consumer = Consumer(path, topic)
        self.messages = self.consumer.poll(4, 10.0)
        self.member = GroupConsumer(path, f"g-{topic}", topic, start="earliest", auto_ack=False)
        self.polled = self.member.poll(8, 10.0)
        self.member.nack(self.polled[0], delay_level=-1)  # opens a producer of its own
        self.other = GroupConsumer(path, f"h-{topic}", topic)
        self.listener = self.other.listen(lambda _: None, concurrency=2)
        eventually(lambda: self.other.assignment, "the listener's queues")
        self.reader = StoreReader(path)
        self.reader.get_message(topic, 0, 0)
        self.reader.get_message(topic, 0, 1)
        assert len(self.messages) == 4
        assert len(self.polled) == 8
        for client in (self.producer, self.consumer, self.member):
            client.fileno()  # opens the session's own bell
        self.transactions = TransactionProducer(path, f"t-{topic}", check=lambda _: None)
        self.transaction = self.transactions.begin(topic, b"half", first_check=3600)
        self.all = (
            *(self.producer, self.consumer, self.member, self.other, self.reader, self.admin),
            self.transactions,
        )
        self.opened = open_files() - self.before

    def close(self) -> None:
        for client in self.all:
            client.close()

    def calls(self) -> dict[str, Callable[[], object]]:
        """Every call that reaches the store or its files."""
        topic, message = self.topic, self.polled[1]
        producer, consumer, member = self.producer, self.consumer, self.member
        reader, admin = self.reader, self.admin
        return {
            "send": lambda: producer.send(topic, b"x"),
            "send_async": lambda: producer.send_async(topic, b"x"),
            "send_oneway": lambda: producer.send_oneway(topic, b"x"),
            "send_batch": lambda: producer.send_batch(topic, [b"x"]),
            "send_batch_async": lambda: producer.send_batch_async(topic, [b"x"]),
            "send_batch_oneway": lambda: producer.send_batch_oneway(topic, [b"x"]),
            "reply": lambda: producer.reply(REQUEST, b"x"),
            "reply_async": lambda: producer.reply_async(REQUEST, b"x"),
            "open_topic": lambda: producer.open_topic(topic),
            "flush": lambda: producer.flush(0.0),
            "cancel": lambda: producer.cancel(self.waiting),
            "in_flight": lambda: producer.in_flight,
            "producer.fileno": producer.fileno,
            "producer.poll": producer.poll,
            "consumer.fileno": consumer.fileno,
            "member.fileno": member.fileno,
            "consumer.poll": lambda: consumer.poll(1),
            "consumer.poll_arrow": lambda: consumer.poll_arrow(1),
            "consumer iteration": lambda: next(iter(consumer)),
            "seek": lambda: consumer.seek(0, "earliest"),
            "lag": consumer.lag,
            "member.poll": lambda: member.poll(1),
            "member.poll_arrow": lambda: member.poll_arrow(1),
            "member iteration": lambda: next(iter(member)),
            "listen": lambda: member.listen(print),
            "ack": lambda: member.ack(message),
            "ack_polled": member.ack_polled,
            "nack": lambda: member.nack(message),
            "assignment": lambda: member.assignment,
            "listener.wait": lambda: self.listener.wait(0.0),
            "get_message": lambda: reader.get_message(topic, 0, 0),
            "at": lambda: reader.at(topic, 0, 0),
            "undispatched": lambda: reader.undispatched,
            "by_key": lambda: reader.by_key(topic, "k"),
            "max_offset": lambda: reader.max_offset(topic, 0),
            "begin": lambda: self.transactions.begin(topic, b"x"),
            "commit": self.transaction.commit,
            "status": admin.status,
            "figures": lambda: admin.figures,
            "topics": admin.topics,
            "groups": admin.groups,
            "create_topic": lambda: admin.create_topic("another"),
        }

    def refused(self) -> str:
        """Makes all calls, in a child; what was refused."""
        told = []
        for name, call in self.calls().items():
            try:
                call()
            except ForkedChild as error:
                told.append(name if "open one here" in str(error) else str(error))
            except ImportError:
                told.append(name)  # no pyarrow
        return ",".join(told)

    def check_in_use(self) -> None:
        """All are as they were, for the parent."""
        topic = self.topic
        self.producer.send(topic, b"8", queue=0)
        self.producer.flush()
        assert int(self.consumer.poll(1, 30.0)[0].body) >= 0
        assert len(self.member.poll(1, 30.0)) == 1
        assert self.member.ack(self.polled[1]) == 1
        assert self.reader.at(topic, 0, 0).body == b"0"
        assert topic in {found.topic for found in self.admin.topics()}
        assert not self.listener.wait(0.0)
        self.transaction.rollback()


@pytest.fixture
def clients(store: StoreProcess, topic: str) -> Iterator[Clients]:
    found = Clients(store, topic)
    yield found
    found.close()
    assert open_files() - found.before == set()


@pytest.mark.parametrize("how", HOW)
def test_every_client_refuses_in_a_forked_child(clients: Clients, how: str) -> None:
    assert in_child(clients.refused, how).split(",") == list(clients.calls())
    clients.check_in_use()


@pytest.mark.parametrize("how", HOW)
def test_closing_in_a_child_changes_nothing_for_the_parent(clients: Clients, how: str) -> None:
    """Neither does the end of a `with` block that the child leaves."""

    def work() -> str:
        for client in (*clients.all, *clients.all):
            client.close()
        clients.listener.stop()
        for client in clients.all:
            if not isinstance(client, StoreReader):
                client.__exit__(None, None, None)
        return clients.refused()

    assert in_child(work, how).split(",") == list(clients.calls())
    clients.check_in_use()


def test_a_child_has_none_of_the_descriptors(clients: Clients) -> None:
    assert len(clients.opened) > 15
    with forked(lambda: "") as (pid, result):
        result()
        assert open_files(pid) & clients.opened == set()
        leads = [to for _, to in open_files(pid)]
        assert not [to for to in leads if clients.path in to]
    clients.check_in_use()


def test_a_fork_waits_for_threads_that_open_or_close_a_client(
    store: StoreProcess, topic: str, long_forms: bool
) -> None:
    """In no child is there a descriptor that has no owner yet, or no longer."""
    with Producer(store.path) as producer:
        for queue in range(4):
            producer.send(topic, b"x", queue=queue)
    before, over = open_files(), threading.Event()
    leads = ("socket:", "anon_inode:[eventfd]", "/memfd:silomq", "/dev/shm/", str(store.path))
    opened = 0

    def use_clients() -> None:
        nonlocal opened
        while not over.is_set():
            with Producer(store.path) as producer:
                producer.send(topic, b"y", queue=0)
            with Consumer(store.path, topic) as consumer:
                consumer.poll(1)
            with StoreReader(store.path) as reader:
                reader.get_message(topic, 0, 0)
            with GroupConsumer(store.path, f"g-{topic}", topic) as member:
                member.poll(1)
            opened += 4

    def kept() -> str:
        return ", ".join(to for _, to in open_files() - before if to.startswith(leads))

    thread = threading.Thread(target=use_clients)
    thread.start()
    try:
        found = [in_child(kept) for _ in range(5000 if long_forms else 200)]
    finally:
        over.set()
        thread.join()
    assert opened > len(found) / 10
    assert [names for names in found if names] == []
    assert open_files() == before


def test_locks_of_other_threads_hold_up_no_child(clients: Clients) -> None:
    """Another thread has each of the clients' locks while this one forks."""
    member, session = clients.member, session_of(clients.producer)
    assert isinstance(member._reader, GroupReader)
    locks = [
        member._reader._lock,
        member._reader.membership._waking,
        member._reader._link._lock,
        clients.reader._lock,
        clients.admin._link._lock,
        session._recovering,
        session._callbacks._starting,
    ]
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)  # type: ignore[arg-type]
            held.set()
            over.wait(60)

    def work() -> str:
        refused = clients.refused()
        for client in clients.all:
            client.close()
        return refused

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    try:
        assert in_child(work).split(",") == list(clients.calls())
    finally:
        over.set()
        thread.join()
    clients.check_in_use()


def test_answers_of_the_parent_are_not_the_childs(clients: Clients) -> None:
    producer, topic = clients.producer, clients.topic
    called: list[int] = []
    done = producer.send_async(topic, b"8", queue=0)
    done.result(30)
    future = producer.send_async(topic, b"9", queue=0, callback=lambda _: called.append(1))

    def work() -> str:
        assert done.result().queue_offset == 4, "what was known is known"
        with contextlib.suppress(ForkedChild):
            # The parent's own thread may have seen the answer before the fork.
            assert future.result(10).queue_offset == 5
        return str(called == [])

    in_child(work)
    assert future.result(30).queue_offset == 5
    eventually(lambda: called == [1], "the parent's callback")


def test_messages_read_before_the_fork_stay_readable(clients: Clients) -> None:
    def work() -> str:
        return ",".join(message.body.decode() for message in clients.polled)

    expected = ",".join(message.body.decode() for message in clients.polled)
    assert in_child(work) == expected


def test_a_child_opens_clients_of_its_own(clients: Clients, store: StoreProcess) -> None:
    def work() -> str:
        with Consumer(store.path, clients.topic) as consumer, Producer(store.path) as producer:
            producer.send(clients.topic, b"from the child")
            return str(len(consumer.poll(8, 10.0)))

    assert in_child(work) == "8"
    clients.check_in_use()


#: A member of a group that forks a child, and waits to be killed. The child lives until the end of
#: its input.
FORKS = """
import os, sys
from silomq import GroupConsumer
path, group, topic = sys.argv[1:]
member = GroupConsumer(path, group, topic, start="earliest")
while not member.assignment:
    member.poll(1, 0.05)
if os.fork() == 0:
    print("forked", flush=True)
sys.stdin.read()
"""


def test_a_child_does_not_keep_its_dead_parent_in_the_group(
    store: StoreProcess, topic: str
) -> None:
    with Admin(store.path) as admin:
        admin.create_topic(topic, 4)
        command = [*PYTHON, "-c", FORKS, str(store.path), f"g-{topic}", topic]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"forked\n"
            assert len(admin.group(f"g-{topic}").members) == 1
            process.kill()
            process.wait()
            eventually(lambda: not admin.group(f"g-{topic}").members, "the parent has left")
            assert process.stdin is not None
            process.stdin.close()
            assert process.stdout.read() == b"", "the child lived until now"


def test_a_reader_of_a_stopped_store_refuses_too(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store, Producer(store.path) as producer:
        producer.send("t", b"x", queue=0)
    before = open_files()
    with StoreReader(tmp_path / "store", stopped=True) as reader:
        assert reader.at("t", 0, 0).body == b"x"
        opened = open_files() - before
        assert opened

        def work() -> str:
            assert not open_files() & opened
            reader.close()
            with pytest.raises(ForkedChild):
                reader.at("t", 0, 0)
            with pytest.raises(ForkedChild):
                _ = reader.undispatched
            return "refused"

        assert in_child(work) == "refused"
        assert reader.at("t", 0, 0).body == b"x"
    assert open_files() == before


def test_what_every_client_can_do_is_in_the_list(clients: Clients) -> None:
    """Public methods that are not called above need no store: their names are here."""
    plain = {
        Producer: {"close", "rejected", "store", "timeout"},
        Consumer: {"close", "missed", "positions", "topic"},
        GroupConsumer: {"auto_ack", "close", "group", "max_reconsume_times", "missed", "store"},
        Admin: {"close", "control"},
    }
    called = {name.rpartition(".")[2] for name in clients.calls()}
    for kind, others in plain.items():
        names = {name for name in dir(kind) if not name.startswith("_")}
        rest = names - others - called
        if kind is Admin:  # each of its methods is a request
            rest -= {"clean", "delete_group", "delete_topic", "group", "reset_offset", "topic"}
            rest -= {"reload", "reload_code", "restart", "update_topic"}
        assert rest == set(), kind
