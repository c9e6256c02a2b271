"""Addresses: what is one, what other machines reach, and sockets that listen there."""

from __future__ import annotations

import socket

import pytest

from silomq import StoreError
from silomq.broker.wire.address import Address


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:65535", "::1", 65535, True),
        ("0.0.0.0:1", "0.0.0.0", 1, False),
        ("example:1", "example", 1, False),
    ],
)
def test_addresses(text: str, host: str, port: int, is_loopback: bool) -> None:
    found = Address.parse(text)
    assert (found.host, found.port, found.is_loopback) == (host, port, is_loopback)
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    ["", "9876", ":1", "host:", "host:65536", "host:" + "9" * 5000, "host:²", "::1:5", "host:-1"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|IPv6"):
        Address.parse(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_socket_listens_there(host: str) -> None:
    try:
        listener = Address(host, 0).listen()
    except StoreError as error:
        pytest.skip(str(error))  # a machine without IPv6
    with listener:
        found = Address.of(listener)
        assert found.host == host
        with socket.create_connection((found.host, found.port)):
            pass
        with pytest.raises(StoreError, match="another process listens there"):
            found.listen()
