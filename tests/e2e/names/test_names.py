"""`silo names`: what brokers, clients and tools are answered, and what a bad peer cannot do."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.commands import SILO
from support.harness import eventually
from support.name_servers import BROKER, NameServerProcess, Peer, name_server, registration

from silomq.broker.wire.command import ONE_WAY, Command, Serialization

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = {"namespace": "ORDER_TOPIC_CONFIG", "key": "x"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NameServerProcess]:
    with name_server(tmp_path) as running:
        yield running


@pytest.fixture
def peer(server: NameServerProcess) -> Iterator[Peer]:
    with server.peer() as connected:
        yield connected


def test_a_broker_registers_and_clients_find_it(server: NameServerProcess, peer: Peer) -> None:
    assert peer.ask(105, {"topic": "x"}).code == 17
    answer = peer.ask(103, BROKER, registration("TBW102", "x"))
    assert (answer.code, answer.body) == (0, b'{"table":{}}')
    with server.peer() as client:
        found = json.loads(client.ask(105, {"topic": "x"}).body)
        assert found["brokerDatas"] == [
            {
                "brokerAddrs": {"0": "127.0.0.1:10911"},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        ]
        assert found["queueDatas"] == [
            {
                "brokerName": "broker-a",
                "perm": 6,
                "readQueueNums": 4,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        ]
        assert client.ask(105, {"topic": "nobody"}).code == 17


def test_ids_of_brokers_have_quotes_for_new_clients_only(peer: Peer) -> None:
    peer.ask(103, BROKER, registration("TBW102", "x"))
    bare, quoted = b'"brokerAddrs":{0:"', b'"brokerAddrs":{"0":"'
    assert bare in peer.ask(105, {"topic": "x"}, version=399).body
    assert quoted in peer.ask(105, {"topic": "x"}, version=401).body
    assert (
        quoted in peer.ask(105, {"topic": "x", "acceptStandardJsonOnly": "true"}, version=399).body
    )
    assert b" " not in peer.ask(105, {"topic": "x"}).body


def test_a_broker_goes_with_its_connection(server: NameServerProcess, peer: Peer) -> None:
    with server.peer() as broker:
        broker.ask(103, BROKER, registration("TBW102", "x"))
        assert peer.ask(105, {"topic": "x"}).code == 0
    eventually(lambda: peer.ask(105, {"topic": "x"}).code == 17, "the broker is forgotten")
    assert "a broker's connection ended" in server.log.read_text()


def test_a_broker_unregisters(peer: Peer) -> None:
    peer.ask(103, BROKER, registration("TBW102", "x"))
    assert peer.ask(104, BROKER).code == 0
    assert peer.ask(105, {"topic": "x"}).code == 17


def test_a_version_is_compared(peer: Peer) -> None:
    version = b'{"counter":1,"stateVersion":0,"timestamp":1}'
    assert peer.ask(322, BROKER, version).fields == {"changed": "true"}
    peer.ask(103, BROKER, registration("TBW102", "x"))
    same = peer.ask(322, BROKER, version)
    assert same.fields == {"changed": "false"}
    assert json.loads(same.body) == json.loads(version)
    assert peer.ask(322, BROKER, b'{"counter":2}').fields == {"changed": "true"}
    assert peer.ask(904, {"brokerAddr": BROKER["brokerAddr"]}).code == 0


def test_tools_are_answered(peer: Peer) -> None:
    peer.ask(103, BROKER, registration("TBW102", "x"))
    broker = (
        b'{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster"'
    )
    assert peer.ask(106).body == (
        b'{"brokerAddrTable":{"broker-a":' + broker + b',"enableActingMaster":false}},'
        b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )
    group = peer.ask(901, {"clusterName": "DefaultCluster", "brokerName": "broker-a"})
    assert group.body == b'{"brokerMemberGroup":' + broker + b"}}"
    assert peer.ask(901, {"clusterName": "DefaultCluster", "brokerName": "nobody"}).code == 1
    assert json.loads(peer.ask(206).body) == {"topicList": ["TBW102", "x"]}
    assert json.loads(peer.ask(224, {"cluster": "DefaultCluster"}).body)["topicList"] == [
        "TBW102",
        "x",
    ]
    assert json.loads(peer.ask(304).body) == {
        "brokerAddr": "127.0.0.1:10911",
        "topicList": ["DefaultCluster", "broker-a"],
    }
    for code in (311, 312, 313):
        assert json.loads(peer.ask(code).body) == {"topicList": []}
    assert peer.ask(205, {"brokerName": "broker-a"}).fields == {"wipeTopicCount": "2"}
    assert json.loads(peer.ask(105, {"topic": "x"}).body)["queueDatas"][0]["perm"] == 4
    assert peer.ask(327, {"brokerName": "broker-a"}).fields == {"addTopicCount": "2"}
    assert peer.ask(216, {"topic": "x"}).code == 0
    assert peer.ask(105, {"topic": "x"}).code == 17


def test_settings_are_kept_in_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with name_server(tmp_path, "--data", str(folder)) as server, server.peer() as peer:
        assert peer.ask(101, KEY).code == 22
        assert peer.ask(219, {"namespace": "ORDER_TOPIC_CONFIG"}).code == 22
        assert peer.ask(100, {**KEY, "value": "broker-a:4"}).code == 0
        assert peer.ask(101, KEY).fields == {"value": "broker-a:4"}
        answer = peer.ask(103, BROKER, registration("TBW102", "x"))
        assert answer.body == b'{"table":{"x":"broker-a:4"}}'
        assert b"orderTopicConf" not in peer.ask(105, {"topic": "x"}).body
    with (
        name_server(tmp_path, "--data", str(folder), "--ordered-topics") as server,
        server.peer() as peer,
    ):
        assert (
            peer.ask(219, {"namespace": "ORDER_TOPIC_CONFIG"}).body
            == b'{"table":{"x":"broker-a:4"}}'
        )
        peer.ask(103, BROKER, registration("TBW102", "x"))
        assert b'"orderTopicConf":"broker-a:4"' in peer.ask(105, {"topic": "x"}).body
        assert peer.ask(102, KEY).code == 0
        assert peer.ask(101, KEY).code == 22
    (folder / "kvConfig.json").write_text("{")
    (folder / "kvConfig.json.bak").write_text("{")
    done = subprocess.run(
        [*SILO, "names", "--listen", "127.0.0.1:0", "--data", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert "kvConfig.json" in done.stderr


def test_requests_that_do_not_fit_are_answered(peer: Peer) -> None:
    assert peer.ask(9999).code == 3
    assert peer.ask(105).code == 1
    said = peer.ask(103, {**BROKER, "brokerId": "x"})
    assert (said.code, "brokerId" in (said.remark or "")) == (1, True)
    assert peer.ask(103, BROKER, b"{").code == 1
    said = peer.ask(103, BROKER, registration("x"))
    assert (said.code, said.remark) == (1, "register broker failed")
    assert peer.ask(106).code == 0, "the connection is as it was"


def test_answers_come_in_order_and_none_for_one_way_requests(peer: Peer) -> None:
    for opaque in range(100):
        form = Serialization(opaque % 2)
        flag = ONE_WAY if opaque % 10 == 5 else 0
        peer.tell(Command(105, {"topic": "x"}, b"", opaque, flag, serialization=form))
    wanted = [n for n in range(100) if n % 10 != 5]
    answers = [peer.hear() for _ in wanted]
    assert [answer.opaque for answer in answers] == wanted
    assert [answer.serialization for answer in answers] == [Serialization(n % 2) for n in wanted]


def test_a_peer_that_breaks_the_protocol_loses_its_connection_only(
    server: NameServerProcess, peer: Peer, long_forms: bool
) -> None:
    chance = random.Random(7)
    good = Command(105, {"topic": "x"}).encode()
    bad = [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">iI", 10, 1 << 20),
        struct.pack(">iI", 4 + 2, 2) + b"[]",
        good + struct.pack(">i", 0),
    ]
    for _ in range(10_000 if long_forms else 100):
        damaged = bytearray(good)
        damaged[chance.randrange(9)] ^= 1 << chance.randrange(8)
        bad += [bytes(damaged), chance.randbytes(chance.randrange(1, 100))]
    for data in bad:
        with server.peer() as other:
            other.socket.sendall(data)
            other.socket.shutdown(socket.SHUT_WR)
            while other.socket.recv(4096):
                pass
    assert peer.ask(106).code == 0
    eventually(lambda: "no frame of the protocol" in server.log.read_text(), "it is told")
    assert server.log.read_text().count("\n") < len(bad)


def memory_mib(server: NameServerProcess) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_unfinished_requests_are_bounded(server: NameServerProcess, peer: Peer) -> None:
    """Thirty connections announce 16 MiB each, and send all but the end."""
    part = struct.pack(">iI", (16 << 20) - 4, 2) + bytes(15 << 20)
    others = [Peer(server.address) for _ in range(30)]
    try:
        for other in others:
            with contextlib.suppress(ConnectionError):
                other.socket.sendall(part)
        assert peer.ask(106).code == 0
        eventually(lambda: "MiB of unfinished requests" in server.log.read_text(), "it is told")
        assert memory_mib(server) < 450
    finally:
        for other in others:
            other.close()


def test_a_peer_that_does_not_read_is_read_no_further(
    server: NameServerProcess, peer: Peer
) -> None:
    names = [f"topic-{number:04d}-{'x' * 90}" for number in range(5000)]
    assert peer.ask(103, BROKER, registration(*names)).code == 0
    with server.peer() as slow:
        slow.socket.setblocking(False)
        request = Command(206).encode() * 100  # each answer has half a megabyte
        with contextlib.suppress(BlockingIOError):
            for _ in range(10_000):
                slow.socket.send(request)
            pytest.fail("all of it was taken")
        assert memory_mib(server) < 200
        assert peer.ask(106).code == 0
        slow.socket.setblocking(True)
        for _ in range(200):
            assert slow.hear().code == 0, "it is answered when it reads"


def test_many_connections(server: NameServerProcess, long_forms: bool) -> None:
    count = 5000 if long_forms else 300
    peers = [Peer(server.address) for _ in range(count)]
    try:
        assert {peer.ask(106).code for peer in peers} == {0}
    finally:
        for peer in peers:
            peer.close()
    open_files = f"/proc/{server.process.pid}/fd"
    eventually(lambda: len(os.listdir(open_files)) < 30, "they are closed")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--listen", "127.0.0.1"), 2, "is not HOST:PORT"),
        (("--listen", "::1:9876"), 2, "write an IPv6 address as [::1]:9876"),
        (("--listen", "127.0.0.1:70000"), 2, "is not HOST:PORT"),
        (("--listen", "0.0.0.0:0"), 3, "--open"),
        (("--listen", "192.0.2.1:0", "--open"), 1, "cannot listen on 192.0.2.1:0"),
        (("--data", "/dev/null/x"), 1, "/dev/null"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], status: int, said: str) -> None:
    done = subprocess.run(
        [*SILO, "names", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken(server: NameServerProcess) -> None:
    done = subprocess.run(
        [*SILO, "names", "--listen", server.address], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "another process listens there" in done.stderr
