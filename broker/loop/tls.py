"""`TlsLayer`: the TLS of one connection, over bytes that the loop receives and sends."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PIECE: Final = 1 << 18


class TlsLayer:
    """The server's side of one connection. Raises ssl.SSLError, an OSError, for a peer that does
    not keep to TLS.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._ready = False

    def receive(self, data: bytes) -> bytes:
        """The plain bytes in what has come, if any are whole. That the peer says goodbye is no
        error: the end of the connection follows it.
        """
        self._incoming.write(data)
        if not self._ready:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self._ready = True
        pieces = []
        try:
            while piece := self._tls.read(_PIECE):
                pieces.append(piece)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(pieces)

    def to_send(self) -> bytes:
        """What TLS itself has to send."""
        return self._outgoing.read()

    def encrypt(self, data: Buffer) -> bytes:
        """The bytes to send for plain ones. Nothing is sent before the handshake is over, because
        an answer follows a request.
        """
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()


def server_context(certificate: str, key: str, trusted: str) -> ssl.SSLContext:
    """The context of a server with this certificate and key, PEM files. With `trusted` its clients
    must show a certificate that one of those in that file has signed. Raises OSError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if trusted:
        context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
