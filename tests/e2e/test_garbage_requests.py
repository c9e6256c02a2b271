"""Structured garbage at a running store's socket: whatever clients send, the store goes on, starts
again, and keeps what it has.
"""

from __future__ import annotations

import os
import random
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.garbage_requests import STRUCTS, Requests
from support.harness import LONG, StoreProcess

from silomq import Admin, Consumer, GroupConsumer, Producer
from silomq.shm import mail, parts
from silomq.shm.control import ACTORS
from silomq.shm.protocol.answers import (
    AnyAnswer,
    Error,
    Welcome,
)
from silomq.shm.protocol.requests import PROTOCOL, AnyRequest, Hello
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from pathlib import Path

A_ROUND = 1000
KEPT = [f"kept-{i}".encode() for i in range(50)]


class Client:
    """A connection with or without a session, which sends packets and awaits each answer."""

    def __init__(self, store: StoreProcess, *, hello: bool) -> None:
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.settimeout(30)
        self._end.connect(str(store.path / SOCKET))
        self._answers: parts.Joiner[AnyAnswer] = parts.Joiner(
            msgspec.json.Decoder(AnyAnswer), 1 << 30
        )
        if hello:
            assert isinstance(self.ask(parts.packets(Hello(protocol=PROTOCOL))), Welcome)

    def ask(self, packets: list[bytes]) -> AnyAnswer | None:
        """The answer; None if the registry hangs up, or awaits another part."""
        try:
            for packet in packets:
                self._end.send(packet)
        except OSError:
            return None
        if awaits_more(packets):
            return None
        while True:
            try:
                answer, fds = mail.receive(self._end, self._answers)
            except parts.Incomplete:
                continue
            except ConnectionResetError:
                return None
            mail.close_all(fds)
            return answer

    def close(self) -> None:
        self._end.close()


def awaits_more(packets: list[bytes]) -> bool:
    """Whether the registry answers nothing to these packets alone."""
    joiner = parts.Joiner(msgspec.json.Decoder(object), parts.MAX_REQUEST)
    for packet in packets:
        try:
            joiner.decode(packet)
        except parts.Incomplete:
            continue
        except (ValueError, RecursionError):
            return False
        return False
    return True


def fill(store: StoreProcess) -> None:
    """Messages and a group's progress that no generated request names."""
    with Admin(store.path) as admin:
        for topic in ("kept", "t", "u"):
            admin.create_topic(topic, 4)
    with Producer(store.path) as producer:
        for body in KEPT:
            producer.send("kept", body)
        producer.send("t", b"x")
    with GroupConsumer(store.path, "keeper", "kept", start="earliest", auto_ack=False) as group:
        found = 0
        while found < 20:
            for message in group.poll(20 - found, 10.0):
                group.ack(message)
                found += 1


def check(store: StoreProcess) -> None:
    with Consumer(store.path, "kept") as consumer:
        found: list[bytes] = []
        while len(found) < len(KEPT):
            messages = consumer.poll(100, 10.0)
            assert messages, "messages that were stored are gone"
            found += [message.body for message in messages]
    assert sorted(found) == sorted(KEPT)
    with Admin(store.path) as admin:
        assert sum(queue.offset for queue in admin.group("keeper").queues) == 20


def send_round(store: StoreProcess, numbers: random.Random) -> dict[str, int]:
    """A thousand requests; how many were answered in which way."""
    requests, count, counts = Requests(numbers), 0, {"error": 0, "answer": 0, "hung up": 0}
    while count < A_ROUND:
        client = Client(store, hello=numbers.random() < 0.8)
        for _ in range(numbers.randrange(1, 40)):
            packets = requests.packets()
            if not packets[0]:
                continue
            count += 1
            answer = client.ask(packets)
            if answer is None:
                counts["hung up"] += 1
                break
            counts["error" if isinstance(answer, Error) else "answer"] += 1
            if isinstance(answer, Error):
                assert answer.status != "UNKNOWN_ERROR", (packets, answer.why)
        client.close()
    return counts


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=(*LONG, pytest.mark.timeout(3600)))])
def test_no_request_stops_a_store_or_its_next_start(tmp_path: Path, rounds: int) -> None:
    """After each thousand requests the store is killed or stopped, and starts again."""
    seed = int(os.environ.get("SILOMQ_SEED", "12"))
    print(f"SILOMQ_SEED={seed}")
    store = StoreProcess(tmp_path / "store", consumer_release_timeout_ms=1000)
    with store:
        fill(store)
        told = 0
        for number in range(rounds):
            counts = send_round(store, random.Random(f"{seed}/{number}"))
            assert min(counts.values()) > 0, counts
            starts = {store.starts(actor) for actor in ACTORS}
            log = store.log_path.read_text(errors="replace")[told:]
            for said in ("actor died", "actor does not beat", "cannot start an actor", "defect"):
                assert said not in log, store.log()
            # A request may have the code replaced, which starts each actor once more.
            replaced = log.count("replacing the code of all processes, as asked")
            assert max(starts) <= 1 + replaced, store.log()
            check(store)
            if number % 2:
                store.stop()
            else:
                store.crash()
            told = len(store.log_path.read_text(errors="replace"))
            store.start()
            check(store)


def test_the_generator_knows_every_request_and_makes_good_ones() -> None:
    decoder = msgspec.json.Decoder(AnyRequest)
    requests, good, bad = Requests(random.Random(1)), set(), 0
    for _ in range(4000):
        for packet in requests.packets():
            try:
                good.add(type(decoder.decode(packet)))
            except (ValueError, RecursionError):
                bad += 1
    assert good == {struct.cls for struct in STRUCTS}
    assert bad > 1000
