"""Hosts, message ids, unique keys."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import HOSTS
from support.uniq_keys import UniqKeys, uniq_key_time_ms

from silomq.store.record import ids
from silomq.store.record.ids import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = bytes((10, 0, 0, 1))


@given(HOSTS, st.integers(0, 2**63 - 1))
def test_message_id_round_trip(host: Host, offset: int) -> None:
    message_id = ids.encode_offset_message_id(host, offset)
    assert len(message_id) == (32 if len(host.address) == 4 else 56)
    assert message_id == message_id.upper()
    assert ids.decode_offset_message_id(message_id) == (host, offset)
    assert Host.parse(str(host)) == host


@pytest.mark.parametrize("text", ["", "F" * 32, "0" * 31, "0" * 56 + "0", "zz" * 16, "0 " * 16])
def test_bad_message_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="message id"):
        ids.decode_offset_message_id(text)


@pytest.mark.parametrize(
    "text",
    ["", ":1", "1.2.3.4", "1.2.3:5", "1.2.3.4:65536", "::1:80", "[::1]", "a.b:1", "1.2.3.4:-1"],
)
def test_bad_hosts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a (host|numeric address)"):
        Host.parse(text)


def test_a_host_of_an_address_and_a_port() -> None:
    assert Host.of("10.0.0.1", 80) == Host(ADDRESS, 80)
    assert Host.of("fd00::1", 0) == Host(b"\xfd" + bytes(14) + b"\1", 0)
    # Java takes such an address for one of IPv4, and so do RocketMQ's ids.
    assert Host.of("::ffff:10.0.0.1", 80) == Host(ADDRESS, 80)
    for address, port in (("a.b", 1), ("fe80::1%eth0", 1), ("[::1]", 1), ("", 1), ("::1", 65536)):
        with pytest.raises(ValueError, match=r"not a (numeric address|host)"):
            Host.of(address, port)


def test_unique_key_is_rocketmqs() -> None:
    now = int(time.mktime((2023, 11, 14, 12, 0, 0, 0, 0, -1))) * 1000 + 123
    key = UniqKeys(ADDRESS, lambda: now).next()
    raw = bytes.fromhex(key)
    assert key == key.upper()
    assert raw[:4] == ADDRESS
    assert int.from_bytes(raw[4:6], "big") == os.getpid() & 0xFFFF
    assert uniq_key_time_ms(key, now) == now
    assert uniq_key_time_ms(key, now + 20 * 86_400_000) == now
    month, following = ids.month_bounds_ms(now)
    assert month <= now < following


def test_a_key_of_last_month_is_read_as_such() -> None:
    month, _ = ids.month_bounds_ms(1_700_000_000_000)
    key = UniqKeys(ADDRESS, lambda: month - 5000).next()
    assert uniq_key_time_ms(key, month + 1000) == month - 5000


@pytest.mark.parametrize("key", ["", "0" * 31, "G" * 32, "0 " * 16])
def test_bad_unique_keys_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="32 hex digits"):
        uniq_key_time_ms(key)


def clock(*times: int) -> Iterator[int]:
    yield from times
    while True:
        yield times[-1]


@pytest.mark.parametrize(
    "times",
    [
        (1_700_000_000_000,),
        # The clock steps back, by more than the counter takes to come round.
        (1_700_000_000_500,) * 70_000 + (1_700_000_000_000,) * 70_000 + (1_700_000_000_600,),
    ],
)
def test_no_key_twice_whatever_the_clock_does(times: tuple[int, ...]) -> None:
    ticks = clock(*times)
    keys = UniqKeys(ADDRESS, lambda: next(ticks))
    assert len({keys.next() for _ in range(200_000)}) == 200_000


def test_no_key_twice_in_the_same_moment_of_two_months() -> None:
    first, second = ids.month_bounds_ms(1_700_000_000_000)
    ticks = clock(first + 7, *(second - 1,) * 65_535, second + 7)
    keys = UniqKeys(ADDRESS, lambda: next(ticks))
    made = [keys.next() for _ in range(65_537)]
    assert made[0][-12:] == made[-1][-12:]
    assert len(set(made)) == len(made)


def test_a_forked_child_makes_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = UniqKeys(ADDRESS, lambda: 1_700_000_000_000)
    before = keys.next()
    # A child whose process id has the same low half.
    child = os.getpid() + 65_536
    monkeypatch.setattr(os, "getpid", lambda: child)
    assert keys.next()[8:20] != before[8:20]


def test_only_ipv4() -> None:
    with pytest.raises(ValueError, match="IPv4"):
        UniqKeys(bytes(16))
    assert len(ids.local_address()) == 4
