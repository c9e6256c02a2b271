"""Requests and answers that are longer than a packet: a topic of 12,000 queues, and what a slow
client or a killed registry makes of them.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.harness import StoreProcess, eventually

from silomq import Admin, Consumer, GroupConsumer, IllegalMessage, Producer
from silomq.client.session import Connection
from silomq.shm import mail, parts
from silomq.shm.protocol.answers import (
    AnyAnswer,
    Joined,
    Opened,
    RegistryRestarted,
    Welcome,
)
from silomq.shm.protocol.request import Request
from silomq.shm.protocol.requests import PROTOCOL, AskTopics, Hello, Join, Open, Start
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUES = 12_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    path = tmp_path_factory.mktemp("long") / "store"
    with StoreProcess(path, max_queues=80_000) as store:
        with Admin(store.path) as admin:
            admin.create_topic("broad", QUEUES)
        yield store


def test_a_topic_of_12000_queues_is_written_and_read(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        for queue in (0, QUEUES // 2, QUEUES - 1):
            producer.send("broad", str(queue), queue=queue)
    store.await_dispatch()
    with Consumer(store.path, "broad") as consumer:
        found: list[tuple[int, bytes]] = []
        while len(found) < 3:
            found += [(message.queue_id, message.body) for message in consumer.poll(10, 10.0)]
    assert sorted(found) == [(q, str(q).encode()) for q in (0, QUEUES // 2, QUEUES - 1)]


def test_a_group_reads_12000_queues_and_is_reset_in_all(store: StoreProcess) -> None:
    with GroupConsumer(store.path, "g", "broad", start="earliest") as consumer:
        found: set[int] = set()
        while len(found) < 3:
            found |= {message.queue_id for message in consumer.poll(10, 10.0)}
    assert found == {0, QUEUES // 2, QUEUES - 1}
    with Admin(store.path) as admin:
        admin.reset_offset("g", "broad", dict.fromkeys(range(QUEUES), 0))
        queues = [queue for queue in admin.group("g").queues if queue.topic == "broad"]
        assert [queue.queue_id for queue in queues] == list(range(QUEUES))
        assert admin.group("g").lag == 3


def test_a_request_of_a_megabyte_is_answered(store: StoreProcess) -> None:
    link = Connection(store.path)
    offsets = {queue: 10**18 + queue for queue in range(40_000)}
    join = Join("far", "clustering", {"broad": ("TAG", "*")}, Start("time", {"broad": offsets}))
    assert len(msgspec.json.encode(join)) > 1_000_000
    assert link.request(join).retry_max_times == 16
    with pytest.raises(IllegalMessage, match="at most 16777216 are taken"):
        link.request(Join("x" * (17 << 20), "clustering", {}, Start("latest")))
    assert link.request(AskTopics(0)).next == -1
    link.close()


class Slow:
    """A client that asks and does not read."""

    def __init__(self, store: StoreProcess) -> None:
        self.end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.settimeout(10)
        self.end.connect(str(store.path / SOCKET))
        self._answers: parts.Joiner[AnyAnswer] = parts.Joiner(
            msgspec.json.Decoder(AnyAnswer), 1 << 30
        )

    def send(self, request: Request[Opened] | Request[Welcome]) -> None:
        for packet in parts.packets(request):
            mail.send_packet(self.end, packet)

    def receive(self) -> AnyAnswer | None:
        while True:
            try:
                answer, fds = mail.receive(self.end, self._answers)
            except parts.Incomplete:
                continue
            mail.close_all(fds)
            return answer


def test_a_client_that_does_not_read_its_long_answer_holds_up_nobody(store: StoreProcess) -> None:
    before = store.pid("registry")
    slow = [Slow(store) for _ in range(4)]
    for client in slow:
        # A socket buffer so small that not even one answer fits.
        client.end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send(Open("broad", write=False, id=7))
        client.send(Open("broad", write=False, id=8))
    began = time.monotonic()
    with Admin(store.path) as admin:
        assert len(admin.topic("broad").queues) == QUEUES
    assert time.monotonic() - began < 5  # the registry waits for a client never, or for ever
    slow[0].end.close()
    for client in slow[1:]:
        for number in (7, 8):  # nothing is lost, and the second request was read later
            answer = client.receive()
            assert isinstance(answer, Opened)
            assert (answer.id, len(answer.slots)) == (number, QUEUES)
        client.end.close()
    assert store.pid("registry") == before


def test_a_registry_that_dies_amid_a_long_answer_is_asked_again(store: StoreProcess) -> None:
    """The socket is full of parts, and the successor's notice waits until the client reads."""
    client = Slow(store)
    client.send(Hello(protocol=PROTOCOL))
    assert isinstance(client.receive(), Welcome)
    with Admin(store.path) as admin:
        admin.create_topic("broader", 4 * QUEUES)
        client.send(Open("broader", write=False, id=1))
        admin.topics()  # the registry has come to the request before it
    store.replace("registry")
    assert isinstance(client.receive(), RegistryRestarted)
    client.send(Open("broader", write=False, id=1))
    answer = client.receive()
    assert isinstance(answer, Opened)
    assert len(answer.slots) == 4 * QUEUES
    client.end.close()


def test_a_registry_that_dies_amid_a_long_request_is_asked_again(store: StoreProcess) -> None:
    """The successor finds the rest of the request in the socket, and then gets the whole of it."""
    link = Connection(store.path)
    offsets = {queue: queue for queue in range(60_000)}
    join = Join("amid", "clustering", {"broad": ("TAG", "*")}, Start("time", {"broad": offsets}))
    answers: list[Joined] = []
    pid = store.kill("registry", signal.SIGSTOP)
    thread = threading.Thread(target=lambda: answers.append(link.request(join)))
    thread.start()
    # The socket is full of parts that nobody reads.
    eventually(lambda: is_full(link), "the client waits with the rest")
    store.kill("registry")
    store.await_successor("registry", pid)
    thread.join(30)
    assert [answer.retry_max_times for answer in answers] == [16]
    link.close()


def is_full(link: Connection) -> bool:
    """Whether the client's socket takes no further packet."""
    return link._socket is not None and not select.select([], [link._socket], [], 0)[1]


def test_hello_in_parts_is_a_hello(store: StoreProcess) -> None:
    client = Slow(store)
    data = msgspec.json.encode(Hello(protocol=PROTOCOL))
    client.end.send(b"1/1 " + data)
    assert isinstance(client.receive(), Welcome)
    client.end.close()
