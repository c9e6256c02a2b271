"""The TLS of one connection over memory, with OpenSSL's own client as its peer."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from support import certificates
from support.certificates import Certificate, client_context

from silomq.broker.loop.tls import TlsLayer, server_context

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificates.make(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture
def layer(certificate: Certificate) -> TlsLayer:
    return TlsLayer(server_context(*certificate, ""))


class Peer:
    """OpenSSL's client over memory."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")

    def meet(self, layer: TlsLayer, piece: int = 1 << 20) -> None:
        """The handshake, with `piece` bytes at a time on their way to the server."""
        done = False
        while not done:
            try:
                self.tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            self.give(layer, piece)

    def give(self, layer: TlsLayer, piece: int = 1 << 20) -> bytes:
        """Hands what the client has to send to the server, and its answer back: what it read."""
        data, plain = self.outgoing.read(), b""
        for at in range(0, len(data), piece):
            plain += layer.receive(data[at : at + piece])
        self.incoming.write(layer.to_send())
        return plain

    def read(self) -> bytes:
        found = b""
        try:
            while piece := self.tls.read(1 << 16):
                found += piece
        except ssl.SSLWantReadError:
            pass
        return found


@pytest.mark.parametrize("piece", [1, 17, 1 << 20])
def test_bytes_go_both_ways(layer: TlsLayer, certificate: Certificate, piece: int) -> None:
    peer = Peer(client_context(certificate))
    peer.meet(layer, piece)
    for size in (1, 100, 40_000):
        peer.tls.write(b"q" * size)
        assert peer.give(layer, piece) == b"q" * size
        peer.incoming.write(layer.encrypt(memoryview(b"a" * 3 * size)))
        assert peer.read() == b"a" * 3 * size


def test_a_request_may_come_with_the_end_of_the_handshake(
    layer: TlsLayer, certificate: Certificate
) -> None:
    peer = Peer(client_context(certificate))
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.do_handshake()
    assert peer.give(layer) == b""
    peer.tls.do_handshake()
    peer.tls.write(b"at once")
    assert peer.give(layer) == b"at once"


def test_an_answer_after_the_peer_has_said_goodbye(
    layer: TlsLayer, certificate: Certificate
) -> None:
    peer = Peer(client_context(certificate))
    peer.meet(layer)
    peer.tls.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    assert peer.give(layer) == b"last"
    assert layer.encrypt(b"answer")


@pytest.mark.parametrize("data", [b"\x16" + bytes(50), b"\x16\x03\x01\x00\x04\xff\xff\xff\xff"])
def test_garbage_is_an_error_of_the_peer(layer: TlsLayer, data: bytes) -> None:
    with pytest.raises(OSError, match="SSL"):
        layer.receive(data)


def test_garbage_after_the_handshake(layer: TlsLayer, certificate: Certificate) -> None:
    Peer(client_context(certificate)).meet(layer)
    with pytest.raises(OSError, match="SSL"):
        layer.receive(b"\x17\x03\x03\x00\x20" + bytes(32))


def test_a_certificate_is_demanded(certificate: Certificate, tmp_path: Path) -> None:
    trusted, other = (certificates.make(tmp_path, name) for name in ("trusted", "other"))
    context = server_context(*certificate, trusted.certificate)
    layer, peer = TlsLayer(context), Peer(client_context(certificate, trusted))
    peer.meet(layer)
    peer.tls.write(b"x")
    assert peer.give(layer) == b"x"
    for shown in (None, other):
        with pytest.raises(OSError, match=r"(?i)certificate"):
            Peer(client_context(certificate, shown)).meet(TlsLayer(context))
