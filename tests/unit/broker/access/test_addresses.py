"""Patterns of addresses: what they match, and what is none."""

from __future__ import annotations

import ipaddress

import pytest

from silomq.broker.access.addresses import AddressPattern, address_of
from silomq.store.record.ids import Host


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4"], []),
        ("10.0.0.5", ["10.0.0.5"], ["10.0.0.6", "10.0.0.50", "::a00:5"]),
        ("10.0.*.*", ["10.0.0.0", "10.0.255.255"], ["10.1.0.0", "1.10.0.0"]),
        ("10.0.*.7", ["10.0.3.7"], ["10.0.3.8"]),
        ("192.168.1-20.7", ["192.168.1.7", "192.168.20.7"], ["192.168.21.7", "192.168.1.8"]),
        ("192.168.0.5-5", ["192.168.0.5"], ["192.168.0.4"]),
        ("10.0.0.{5,6}", ["10.0.0.5", "10.0.0.6"], ["10.0.0.7"]),
        ("10.0.0.5, 10.0.1.*,::1", ["10.0.0.5", "10.0.1.9", "::1"], ["10.0.0.6"]),
        ("10.0.0.{1,2},10.0.0.9", ["10.0.0.1", "10.0.0.9"], ["10.0.0.3"]),
        ("10.0.0.0/8", ["10.255.0.1"], ["11.0.0.0", "::1"]),
        ("2001:db8::/32", ["2001:db8::7"], ["2001:db9::7", "10.0.0.1"]),
        ("::1", ["::1"], ["::2", "127.0.0.1"]),
        ("1050:0:0:0:5:600:300c:*", ["1050::5:600:300c:1"], ["1050::5:600:300d:1"]),
        ("fe80::1-ff", ["fe80::1", "fe80::ff"], ["fe80::100", "fe81::1"]),
        ("1050:0:0:0:5:600:300c:{1,2}", ["1050::5:600:300c:2"], ["1050::5:600:300c:3"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matched: list[str], others: list[str]) -> None:
    found = AddressPattern(pattern)
    for address in matched:
        assert found.matches(ipaddress.ip_address(address)), address
    for address in others:
        assert not found.matches(ipaddress.ip_address(address)), address


@pytest.mark.parametrize(
    "pattern",
    [
        *("10.0.0", "10.0.0.0.0", "10.0.0.256", "10.0.0.x", "10.0.0.-1", "10.0.0.5-", "10.0.0.9-5"),
        *("10.0.0.0-256", "10.0.0.{}", "10.0.{0,1}.0", "10.0.0.{1,x}", "10.0.0.5,", "**", "host"),
        *("10.0.0.1/33", "10.0.0.1/8", "1:2:3", "1::2::3", "::10000", "1:2:3:4:5:6:7:8:9", " ", ""),
        *("10.0.0.\u0663", "1_0.0.0.1", "10.0.0.5:80"),
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"address|network|host bits"):
        AddressPattern(pattern)


def test_the_address_of_a_host() -> None:
    for text in ("10.1.2.3", "2001:db8::7"):
        assert address_of(Host.of(text, 5).packed()) == ipaddress.ip_address(text)
    assert address_of(Host.of("::ffff:10.1.2.3", 5).packed()) == ipaddress.ip_address("10.1.2.3")
