"""The document on a broker's board is decoded strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from silomq.shm.protocol import broker_status
from silomq.shm.protocol.broker_status import MOST_ENTRIES, MOST_TEXT

GOOD: dict[str, Any] = {
    "name": "b", "cluster": "c", "pid": 1, "listens": "h:1", "told": "h:1", "started_ms": 1,
    "written_ms": 2, "connections": 1, "bytes_in": 1, "bytes_out": 1, "messages_sent": 1,
    "messages_pulled": 1, "held_pulls": 1,
    "requests": [{"request": "PULL_MESSAGE", "count": 3, "per_second": 0.5}],
    "refused": [{"request": "PULL_MESSAGE", "answer": "NO_PERMISSION", "count": 1}],
    "closed": [{"why": "w", "count": 1}],
    "group_count": 1,
    "groups": [{
        "group": "g", "model": "CLUSTERING", "member_count": 1, "topic_count": 1, "topics": ["t"],
        "members": [{"client_id": "i", "language": "GO", "address": "h:2"}],
    }],
    "producer_group_count": 1,
    "producer_groups": [{"group": "p", "connections": 1}],
    "name_servers": [{"address": "h:3", "state": "failed", "problem": "why"}],
    "pulls_found": 7, "pulls_missed": 8, "put_ms_99": 1.0, "put_ms_longest": 9,
    "put_ms_sum": 30, "put_ms_below": [*range(14)],
}  # fmt: skip


def test_a_good_document() -> None:
    status = broker_status.decode(json.dumps(GOOD).encode())
    assert json.loads(broker_status.encode(status)) == GOOD


@pytest.mark.parametrize("name", GOOD)
def test_no_field_may_be_missing_or_of_another_kind(name: str) -> None:
    for bad in ({k: v for k, v in GOOD.items() if k != name}, {**GOOD, name: None}):
        with pytest.raises(ValueError, match=name):
            broker_status.decode(json.dumps(bad).encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pid", -1),
        ("pid", 2**63),
        ("pid", 1.5),
        ("pid", "1"),
        ("name", "x" * (MOST_TEXT + 1)),
        ("more", 1),
        ("requests", [{"request": "x", "count": 1, "per_second": 1e300}]),
        ("requests", [{"request": "x", "count": 1, "per_second": -1}]),
        ("requests", GOOD["requests"] * (MOST_ENTRIES + 1)),
        ("name_servers", [{"address": "h:3", "state": "other", "problem": ""}]),
    ],
)
def test_values_have_bounds(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        broker_status.decode(json.dumps({**GOOD, name: value}).encode())


@pytest.mark.parametrize(
    "document",
    [
        *(b"", b"null", b"[]", b"{", b"\xff", b'{"name":NaN}', b"[" * 60_000),
        b'{"name":' * 8_000,
        b'{"groups":' + b"[" * 60_000,
        json.dumps({**GOOD, "name": "@"}).encode().replace(b"@", b"\\ud800"),
        json.dumps({**GOOD, "pid": "@"}).encode().replace(b'"@"', b"1e999"),
    ],
    ids=range(11),
)
def test_what_is_no_document(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        broker_status.decode(document)


def test_texts_are_cut_off() -> None:
    assert broker_status.text("x" * 300) == "x" * MOST_TEXT
    assert broker_status.text("a\ud800b") == "a?b"
    assert broker_status.text("\x1b\u202e") == "\x1b\u202e"
