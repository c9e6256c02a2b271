"""Records of the trace topic: RocketMQ's form, and what is none."""

from __future__ import annotations

import random

import pytest

from silomq.client.lookup.trace_records import (
    MOST_CHARACTERS,
    MOST_RECORDS,
    TraceRecord,
    in_order,
    parse_records,
)


def text(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


PUB = text(
    "Pub", 1000, "region", "senders", "orders", "ID1", "tag", "key", "10.0.0.1:10911", 5, 3, 0,
    "OFFSETID", "true",
)  # fmt: skip
OLD_PUB = text("Pub", 1000, "region", "senders", "orders", "ID1", "", "", "h:1", 5, 3, 1, "false")
BEFORE = text("SubBefore", 2000, "region", "readers", "R1", "ID1", 2, "key")
AFTER = text("SubAfter", "R1", "ID1", 7, "true", "key", 0)
AFTER_WITH_GROUP = text("SubAfter", "R2", "ID1", 7, "false", "key", 2, 3000, "others")
END = text(
    "EndTransaction", 1500, "region", "senders", "orders", "ID1", "tag", "key", "h:1", 2, "T1",
    "COMMIT_MESSAGE", "true",
)  # fmt: skip
RECALL = text("Recall", 1600, "region", "senders", "orders", "ID1", "true")


def one(body: str) -> TraceRecord:
    (found,), bad = parse_records(body.encode())
    assert bad == 0
    return found


def test_what_each_kind_tells() -> None:
    published = one(PUB)
    assert (published.kind, published.group, published.topic) == ("published", "senders", "orders")
    assert (published.at_ms, published.cost_ms, published.body_size) == (1000, 3, 5)
    assert (published.message_type, published.offset_message_id) == ("normal", "OFFSETID")
    assert published.succeeded is True
    old = one(OLD_PUB)
    assert (old.offset_message_id, old.succeeded) == (None, False)
    assert old.message_type == "transaction half"
    begin = one(BEFORE)
    assert (begin.group, begin.retries, begin.request_id) == ("readers", 2, "R1")
    assert begin.succeeded is None
    later = one(AFTER_WITH_GROUP)
    assert (later.group, later.at_ms, later.result) == ("others", 3000, "exception")
    assert later.succeeded is False
    ended = one(END)
    assert (ended.state, ended.transaction_id, ended.from_check) == ("COMMIT_MESSAGE", "T1", True)
    assert one(RECALL).kind == "recalled"
    assert one(PUB.replace("ID1", "ID1,ID2")).message_ids == ("ID1", "ID2")


def test_the_end_of_a_consumption_belongs_to_its_begin() -> None:
    records = parse_records((AFTER + BEFORE + PUB).encode()).good
    found = [record for record, _ in in_order((record, "c") for record in records)]
    assert [record.kind for record in found] == ["published", "consuming", "consumed"]
    last = found[-1]
    assert (last.at_ms, last.group, last.retries, last.result) == (2007, "readers", 2, "success")


@pytest.mark.parametrize(
    "bad",
    [
        "x\x02",
        "Pub\x02",
        text("Pub", *range(12)),
        PUB.replace("1000", "soon"),
        PUB.replace("1000", "-1"),
        PUB.replace("1000", "9" * 40),
        PUB.replace("1000", "\u0661"),
        PUB.replace("true", "maybe"),
        PUB.replace("ID1", ","),
        PUB.replace("senders", ""),
        PUB.replace("tag", "t" * (MOST_CHARACTERS + 1)),
        BEFORE.replace("\x01key", "").replace("\x012", ""),
        text("Unknown", *range(20)),
    ],
)
def test_bad_records_are_counted_and_passed(bad: str) -> None:
    assert parse_records(bad.encode()) == ([], 1)
    good, count = parse_records((PUB + bad + BEFORE).encode())
    assert ([record.kind for record in good], count) == (["published", "consuming"], 1)


def test_a_body_is_bounded() -> None:
    good, bad = parse_records((RECALL * (MOST_RECORDS + 5)).encode())
    assert (len(good), bad) == (MOST_RECORDS, 5)
    assert parse_records(b"\x01" * 1_000_000).bad == 1
    assert parse_records(b"") == ([], 0)


def test_any_bytes_are_read() -> None:
    source = random.Random(48)
    whole = (PUB + BEFORE + AFTER + END + RECALL).encode()
    for _ in range(300):
        spoilt = bytearray(whole)
        for _ in range(source.randrange(1, 8)):
            spoilt[source.randrange(len(spoilt))] = source.choice((0, 1, 2, 255, 65))
        good, bad = parse_records(bytes(spoilt))
        assert 0 <= len(good) + bad <= 20
        in_order((record, "c") for record in good)
