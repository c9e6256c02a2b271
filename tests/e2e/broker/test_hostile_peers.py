"""Peers that break the protocol, hold things open, or never read: each costs only itself."""

from __future__ import annotations

import contextlib
import json
import random
import select
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import GOOD, TOPIC, pull_fields, send_fields
from support.bystanders import Bystander, memory_mib
from support.harness import WAIT_S, eventually
from support.remoting_client import RemotingClient

from silomq.broker.wire.command import MAX_FRAME, Command, Serialization

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.brokers import BrokerProcess

MIB = 1 << 20
UNFINISHED_MIB = 64


@pytest.fixture(scope="module")
def broker_settings() -> tuple[str, ...]:
    return (f"max_unfinished_size={UNFINISHED_MIB << 20}", "max_unsent_size=1048576")


@pytest.fixture(autouse=True)
def _serves(broker: BrokerProcess) -> Iterator[None]:
    """Whatever happens, the broker serves afterwards, and its log has few lines."""
    lines = broker.log().count("\n")
    began = time.monotonic()
    yield
    with RemotingClient(broker.address) as client:
        assert client.ask(10, send_fields(), b"x").code == 0
    assert broker.log().count("\n") - lines < 60 * (time.monotonic() - began + 1)


def drop(broker: BrokerProcess, data: bytes) -> None:
    """Sends bytes on a connection of its own, and waits until the broker closes it."""
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as end:
        with contextlib.suppress(OSError):  # it may be closed before all is sent
            end.sendall(data)
            end.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while end.recv(65_536):
                pass


def read_until(client: RemotingClient, count: int) -> None:
    """Reads until there are so many answers."""
    deadline = time.monotonic() + WAIT_S
    while len(client.answers) < count:
        assert time.monotonic() < deadline, len(client.answers)
        client.listen(0.01)


def damaged(chance: random.Random) -> bytes:
    """Bytes that were some requests, and garbage."""
    code = chance.choice(list(GOOD))
    fields = {name: str(value) for name, value in GOOD[code].fields.items()}
    form = Serialization(chance.randrange(2))
    good = Command(code, fields, GOOD[code].body, serialization=form).encode()
    spoilt = bytearray(good)
    for _ in range(chance.randrange(4)):
        spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200))
    if kind == 1:  # a length that lies
        return struct.pack(">i", chance.choice((-1, 0, 3, 4, 2**31 - 1, len(good)))) + good[4:]
    if kind == 2:  # the length of the header lies
        return good[:4] + chance.randbytes(4) + good[8:]
    if kind == 3:
        return good * 3 + bytes(spoilt) + good
    return bytes(spoilt)


def test_garbage(broker: BrokerProcess, long_forms: bool) -> None:
    chance = random.Random(11)
    with Bystander(broker) as others:
        for _ in range(100_000 if long_forms else 2_000):
            drop(broker, damaged(chance))
        assert others.grown_mib < 30
    assert "connections closed" in broker.log()


KEY_FIELDS = {name: str(value) for name, value in GOOD[12].fields.items()}
QUERY_FIELDS = {name: str(value) for name, value in GOOD[14].fields.items()}
BOMBS = {
    "fields in JSON": lambda: Command(30, {f"f{i}": "" for i in range(100_000)}).encode(),
    "binary fields": lambda: Command(
        30, {f"f{i}": "x" for i in range(100_000)}, serialization=Serialization.ROCKETMQ
    ).encode(),
    "16 MiB of one field": lambda: Command(30, {"topic": "x" * (MAX_FRAME - 200)}).encode(),
    "16 MiB of fields": lambda: _json_frame(
        b'{"code":30,"extFields":{' + b",".join(b'"%x":1' % i for i in range(1_500_000)) + b"}}"
    ),
    "deep JSON": lambda: _json_frame(b'{"code":30,"extFields":{"a":' + b"[" * 10_000),
    "deep and closed": lambda: _json_frame(
        b'{"code":30,"extFields":{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}}"
    ),
    "a body of deep JSON": lambda: Command(34, {}, b'{"a":' * 10_000 + b"}" * 10_000).encode(),
    "a long key": lambda: Command(12, {**KEY_FIELDS, "key": "k" * 200_000}).encode(),
    "a long group": lambda: Command(14, {**QUERY_FIELDS, "consumerGroup": "\1" * 40_000}).encode(),
    "a heart-beat of many topics": lambda: Command(34, {}, _heart_beat_of(100_000)).encode(),
}


def _json_frame(header: bytes) -> bytes:
    assert len(header) < MAX_FRAME - 8, len(header)
    return struct.pack(">iI", 4 + len(header), len(header)) + header


def _heart_beat_of(count: int) -> bytes:
    topics = [{"topic": f"t{i}", "subString": "*", "subVersion": 1} for i in range(count)]
    consumer = {"groupName": "many", "subscriptionDataSet": topics}
    return json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode()


@pytest.mark.parametrize("kind", BOMBS)
def test_header_bombs(broker: BrokerProcess, kind: str) -> None:
    data = BOMBS[kind]()
    with Bystander(broker) as others:
        for _ in range(5):
            drop(broker, data)
        print(kind, f"{others.grown_mib:.0f} MiB")
        assert others.grown_mib < 150


def test_unfinished_requests_are_bounded(broker: BrokerProcess) -> None:
    """Connections announce 16 MiB each, and send all but the end."""
    part = struct.pack(">iI", MAX_FRAME - 4, 2) + bytes(15 << 20)
    with Bystander(broker) as others, contextlib.ExitStack() as stack:
        for _ in range(12):
            peer = stack.enter_context(RemotingClient(broker.address))
            with contextlib.suppress(ConnectionError):
                peer.send_bytes(part)
        eventually(lambda: "MiB of unfinished requests" in broker.log(), "it is told")
        assert others.grown_mib < UNFINISHED_MIB + 60


def test_a_peer_that_never_reads_is_read_no_further(broker: BrokerProcess) -> None:
    with RemotingClient(broker.address) as client:
        for number in range(8):
            client.ask(10, send_fields("long", f"K{number}"), b"x" * 200_000)
    with Bystander(broker) as others, RemotingClient(broker.address) as slow:
        slow.socket.settimeout(0.5)
        fields = {name: str(value) for name, value in pull_fields("long").items()}
        with contextlib.suppress(TimeoutError):
            for opaque in range(100_000):
                slow.socket.sendall(Command(11, fields, opaque=1_000 + opaque).encode())
            pytest.fail("all of it was taken")
        assert others.grown_mib < 60
        slow.socket.settimeout(30)
        read_until(slow, 100)


def test_held_pulls_of_a_peer_that_never_reads(broker: BrokerProcess) -> None:
    """A message that answers many pulls at once takes the room of few answers."""
    with Bystander(broker) as others, RemotingClient(broker.address) as slow:
        slow.ask(10, send_fields("held"), b"x")
        held = pull_fields("held", 1, sysFlag=6, suspendTimeoutMillis=60_000)
        request = Command(11, {key: str(value) for key, value in held.items()})
        for opaque in range(2_000):
            request.opaque = 10_000 + opaque
            slow.send_bytes(request.encode())
        slow.ask(30, {"topic": TOPIC, "queueId": 0})
        with RemotingClient(broker.address) as client:
            for _ in range(3):
                assert client.ask(10, send_fields("held"), b"x" * 200_000).code == 0
            time.sleep(0.5)
            print(f"{others.grown_mib:.0f} MiB")
            assert others.grown_mib < 60
        read_until(slow, 2_000)


def test_held_pulls_are_bounded(broker: BrokerProcess, long_forms: bool) -> None:
    count = 400_000 if long_forms else 20_000
    with Bystander(broker) as others, RemotingClient(broker.address) as client:
        client.ask(10, send_fields("empty"), b"x")
        held = pull_fields("empty", 1, sysFlag=6, suspendTimeoutMillis=2_000)
        request = Command(11, {key: str(value) for key, value in held.items()})
        seen = 0
        for opaque in range(count):
            request.opaque = 1_000 + opaque
            client.socket.sendall(request.encode())
            if opaque % 100 == 0:
                while select.select([client.socket], [], [], 0)[0]:
                    client.listen(0.001)
                seen += len(client.answers)
                client.answers.clear()
        print(f"{others.grown_mib:.0f} MiB")
        assert others.grown_mib < 300
        deadline = time.monotonic() + 60
        while seen < count and time.monotonic() < deadline:
            client.listen(0.01)
            seen += len(client.answers)
            client.answers.clear()
        assert seen == count


def test_many_idle_connections(broker: BrokerProcess, long_forms: bool) -> None:
    count = 10_000 if long_forms else 1_000
    before = memory_mib(broker)
    with contextlib.ExitStack() as stack, Bystander(broker):
        idle = [stack.enter_context(RemotingClient(broker.address)) for _ in range(count)]
        for peer in idle[:: count // 20]:
            assert peer.ask(30, {"topic": TOPIC, "queueId": 0}).code == 0
        grown = memory_mib(broker) - before
        print(f"{grown * 1024 / count:.1f} KiB a connection")
        assert grown < 20 + count * 0.01


def test_connections_come_and_go(broker: BrokerProcess, long_forms: bool) -> None:
    ends = time.monotonic() + (30 if long_forms else 2)
    host, _, port = broker.address.rpartition(":")
    count = 0
    with Bystander(broker) as others:
        while time.monotonic() < ends:
            with socket.create_connection((host, int(port))) as end:
                if count % 2:  # it ends with a reset
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if count % 3 == 0:
                    end.sendall(Command(106).encode())
            count += 1
        print(f"{count} connections")
        assert others.grown_mib < 20


def test_more_requests_than_the_registry_answers(broker: BrokerProcess) -> None:
    """Each asks the registry for another group: too many at a time are told to try again."""
    with Bystander(broker) as others, RemotingClient(broker.address) as client:
        requests = [
            client.command(14, {"topic": TOPIC, "queueId": 0, "consumerGroup": f"g{number}"})
            for number in range(20_000)
        ]
        client.send_bytes(b"".join(request.encode() for request in requests), 1 << 16)
        codes = {client.answer(request.opaque).code for request in requests}
        assert codes <= {0, 2, 22}, codes
        assert others.grown_mib < 60
