"""RocketMQ's own clients at `silo broker`, in one group with a `GroupConsumer` of its store."""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING

import pytest
from interop.brokers import QUEUES, silomq_server
from interop.clients import CLIENTS, JAVA_CLIENTS, Clients
from support.harness import LONG, eventually

from silomq import GroupConsumer, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.brokers import Server
    from interop.clients import Client

pytestmark = pytest.mark.timeout(180)
#: The clients for Node and Python look at the list of members every 10 s or less often.
PATIENCE_S = 45.0
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with silomq_server(folder) as running:
        yield running


@pytest.fixture
def ends() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as found:
        yield found


class Local:
    """A member of the store that reads in a thread."""

    def __init__(self, store: Path, group: str, topic: str) -> None:
        self.topic = topic
        self.bodies: list[str] = []
        self.assignment: list[int] = []
        self._over = threading.Event()
        self._member = GroupConsumer(store, group, topic, start="earliest")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._member as member:
            while not self._over.is_set():
                self.bodies += [message.body.decode() for message in member.poll(100, 0.05)]
                self.assignment = sorted(i for t, i in member.assignment if t == self.topic)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


class Group:
    """A group whose members have consumed everything that was sent so far; each message once, if it
    is to be `exact`.
    """

    def __init__(self, folder: Path, topic: str, *, exact: bool) -> None:
        self.exact = exact
        self.store = folder / "store"
        self.topic = topic
        self.sent = 0
        self.members: list[Client | Local] = []

    def consumed(self) -> list[str]:
        found: list[str] = []
        for member in self.members:
            if isinstance(member, Local):
                found += member.bodies
            else:
                found += [line["body"] for line in member.received()]
        return found

    def settle(self) -> None:
        with Producer(self.store) as producer:
            for i in range(10 * QUEUES):
                producer.send(self.topic, b"%d" % (self.sent + i), queue=i % QUEUES)
        self.sent += 10 * QUEUES
        wanted = sorted(str(i) for i in range(self.sent))
        eventually(lambda: set(self.consumed()) >= set(wanted), "all is consumed", PATIENCE_S)
        if self.exact:
            assert sorted(self.consumed()) == wanted


#: What runs in the short form.
SHORT = {("java-5.3.3", True), ("go", False)}


@pytest.mark.parametrize(
    ("client", "orderly"),
    [
        pytest.param(client, orderly, marks=() if (client, orderly) in SHORT else LONG)
        for client, orderly in (
            *((client, False) for client in CLIENTS),
            *((client, True) for client in JAVA_CLIENTS),
        )
    ],
)
def test_a_client_and_a_member_of_the_store_share_a_group(
    server: Server,
    folder: Path,
    tmp_path: Path,
    ends: contextlib.ExitStack,
    client: str,
    *,
    orderly: bool,
) -> None:
    clients = Clients(server.names, tmp_path)
    topic = server.make_topic(f"mixed{next(_numbers)}")
    name = f"group-{topic}"
    # Go's client commits in one of the queues that it loses, and forgets the offsets of the others.
    group = Group(folder, topic, exact=client in JAVA_CLIENTS)
    with clients.consumer(client, name, topic, orderly=orderly) as first:
        group.members.append(first)
        group.settle()
        local = Local(group.store, name, topic)
        ends.callback(local.end)
        group.members.append(local)
        eventually(lambda: len(local.assignment) == QUEUES // 2, "half the queues", PATIENCE_S)
        before = len(local.bodies)
        group.settle()
        assert len(local.bodies) - before == 5 * QUEUES
    eventually(lambda: len(local.assignment) == QUEUES, "it has all queues", PATIENCE_S)
    group.settle()
    with clients.consumer(client, name, topic, orderly=orderly) as second:
        group.members.append(second)
        eventually(lambda: len(local.assignment) == QUEUES // 2, "half the queues", PATIENCE_S)
        group.settle()
        assert second.received()
        local.end()
        group.settle()
