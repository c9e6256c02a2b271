"""How long a local reply is of use to a client on the network."""

from __future__ import annotations

import pytest

from silomq.broker.groups.local_replies import useful_until_ms
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.requests import MOST_TTL_MS


@pytest.mark.parametrize(
    ("ttl", "useful_ms"),
    [
        ("3000", 30_000), ("20", 30_000), ("60000", 60_000), ("x", 30_000),
        ("9" * 15, MOST_TTL_MS),
    ],
)  # fmt: skip
def test_a_reply_is_of_use_while_its_requester_may_wait(ttl: str, useful_ms: int) -> None:
    pairs = f"TTL\x01{ttl}\x02".encode()
    record = decode_record(encode_record(b"t", b"x", pairs, store_timestamp=1_000))
    assert useful_until_ms(record) == 1_000 + useful_ms
