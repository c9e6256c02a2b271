"""Certificates for tests of TLS, made by the `openssl` command, and a client that speaks TLS."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from pathlib import Path


class Certificate(NamedTuple):
    """A certificate that has signed itself, and its key: paths of PEM files."""

    certificate: str
    key: str


def make(folder: Path, name: str) -> Certificate:
    """A new certificate for 127.0.0.1. Skips the test without `openssl`; CI must have it."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must have the openssl command")
        pytest.skip("there is no openssl command")
    made = Certificate(str(folder / f"{name}.pem"), str(folder / f"{name}.key"))
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", made.key),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-out", made.certificate),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


def client_context(server: Certificate, own: Certificate | None = None) -> ssl.SSLContext:
    """The context of a client that trusts the server's certificate, and shows its own."""
    context = ssl.create_default_context(cafile=server.certificate)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


class SecureClient(RemotingClient):
    """A client that speaks TLS."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__(address)
        plain = self.socket
        self.socket = self._secure = context.wrap_socket(plain, server_hostname="127.0.0.1")

    def _receive(self, timeout_s: float) -> None:
        if self._secure.pending():
            self._take_in()
        else:
            super()._receive(timeout_s)
