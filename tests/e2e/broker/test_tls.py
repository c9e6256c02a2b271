"""TLS and plain connections at one port, and peers that do not keep to TLS."""

from __future__ import annotations

import random
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from support import certificates
from support.broker_requests import pull_fields, send_fields
from support.brokers import BrokerProcess
from support.bystanders import Bystander
from support.certificates import Certificate, SecureClient, client_context
from support.harness import eventually
from support.remoting_client import Disconnected, RemotingClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.harness import StoreProcess

HANDSHAKE = b"\x16"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture(scope="module")
def broker_settings(server: Certificate) -> tuple[str, ...]:
    return settings("permissive", server)


def settings(mode: str, server: Certificate, *more: str) -> tuple[str, ...]:
    return (
        f"tls.server.mode={mode}",
        f"tls.server.certPath={server.certificate}",
        f"tls.server.keyPath={server.key}",
        *more,
    )


@pytest.fixture
def secure(broker: BrokerProcess, server: Certificate) -> Iterator[SecureClient]:
    with SecureClient(broker.address, client_context(server)) as connected:
        yield connected


def is_served(client: RemotingClient) -> bool:
    """Whether a request is answered; False if the connection ends instead."""
    try:
        return client.ask(106).code == 0
    except (Disconnected, OSError):
        return False


def test_both_kinds_at_one_port(
    broker: BrokerProcess, client: RemotingClient, secure: SecureClient
) -> None:
    for _ in range(3):
        assert is_served(client)
        assert is_served(secure)
    assert secure.ask(10, send_fields("tls"), b"by TLS").code == 0
    eventually(
        lambda: b"by TLS" in client.ask(11, pull_fields("tls")).body, "the message is dispatched"
    )


def test_big_answers_and_requests_that_follow_each_other(secure: SecureClient) -> None:
    body = random.Random(3).randbytes(200_000)
    for number in range(5):
        assert secure.ask(10, send_fields("big", f"K{number}"), body).code == 0
    eventually(lambda: body in secure.ask(11, pull_fields("big", 4)).body, "all are dispatched")
    opaques = [secure.send(11, pull_fields("big", number % 5)) for number in range(60)]
    for opaque in opaques:
        assert body in secure.answer(opaque).body
    opaques = [secure.send(30, {"topic": "big", "queueId": 0}) for _ in range(2_000)]
    assert {secure.answer(opaque).fields["offset"] for opaque in opaques} == {"5"}


def test_a_request_in_many_records(secure: SecureClient) -> None:
    request = secure.command(10, send_fields("pieces"), b"x" * 3_000)
    secure.send_bytes(request.encode(), 7)
    assert secure.answer(request.opaque).code == 0


def test_garbage_instead_of_a_handshake(broker: BrokerProcess, long_forms: bool) -> None:
    chance = random.Random(4)
    with Bystander(broker) as others:
        for number in range(20_000 if long_forms else 300):
            with RemotingClient(broker.address) as client:
                data = HANDSHAKE + chance.randbytes(chance.randrange(0, 600))
                if number % 2:  # a record whose head is good
                    data = b"\x16\x03\x01\x00\x20\x01\x00\x00\x1c\x03\x03" + chance.randbytes(27)
                client.send_bytes(data)
                client.socket.shutdown(socket.SHUT_WR)
                assert client.is_closed_within(10)
        assert others.grown_mib < 30
    eventually(lambda: '"why": "TLS: ' in broker.log(), "it is told")


def test_garbage_after_the_handshake(broker: BrokerProcess, server: Certificate) -> None:
    with SecureClient(broker.address, client_context(server)) as client:
        assert is_served(client)
        raw = socket.socket(fileno=client.socket.detach())
        with raw:
            raw.settimeout(10)
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            while raw.recv(65_536):
                pass


def test_half_handshakes_cost_little(broker: BrokerProcess, server: Certificate) -> None:
    outgoing = ssl.MemoryBIO()
    hello = client_context(server).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    first = outgoing.read()
    peers = [RemotingClient(broker.address) for _ in range(200)]
    try:
        with Bystander(broker) as others:
            for number, peer in enumerate(peers):
                peer.send_bytes(first if number % 2 else first[: len(first) // 2])
            with SecureClient(broker.address, client_context(server)) as client:
                assert is_served(client)
            print(f"{others.grown_mib:.1f} MiB for {len(peers)}")
            assert others.grown_mib < 40
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.parametrize(
    ("mode", "plain_is_served", "tls_is_served"),
    [("disabled", True, False), ("enforcing", False, True)],
)
def test_modes(
    store: StoreProcess,
    server: Certificate,
    mode: str,
    plain_is_served: bool,
    tls_is_served: bool,
) -> None:
    told = settings(mode, server)
    with BrokerProcess(store.path, *told, listen="127.0.0.1:0") as broker:
        with RemotingClient(broker.address) as client:
            assert is_served(client) is plain_is_served
        served = False
        try:
            with SecureClient(broker.address, client_context(server)) as client:
                served = is_served(client)
        except OSError:
            pass
        assert served is tls_is_served
        eventually(lambda: '"why": "the peer ' in broker.log(), "it is told")


def test_clients_show_a_certificate(
    store: StoreProcess, server: Certificate, tmp_path: Path
) -> None:
    good, bad = (certificates.make(tmp_path, name) for name in ("good", "bad"))
    told = settings("enforcing", server, f"tls.server.trustCertPath={good.certificate}")
    with BrokerProcess(store.path, *told, listen="127.0.0.1:0") as broker:
        with SecureClient(broker.address, client_context(server, good)) as client:
            assert is_served(client)
        for shown in (None, bad):
            try:
                with SecureClient(broker.address, client_context(server, shown)) as client:
                    assert not is_served(client)
            except OSError:
                pass
        with RemotingClient(broker.address) as client:
            assert not is_served(client)


def test_a_certificate_that_cannot_be_used(store: StoreProcess, server: Certificate) -> None:
    for told in (
        settings("permissive", Certificate("/dev/null", server.key)),
        settings("permissive", Certificate(server.certificate, "/no/such/file")),
    ):
        broker = BrokerProcess(store.path, *told, listen="127.0.0.1:0")
        with pytest.raises(AssertionError, match="cannot use the certificate"):
            broker.start()
        assert broker.running.wait(10) == 1
