"""Rows that are no messages are found before anything is sent, and named."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from silomq.pipeline.sink.rows import STAGED, BadRow, Limits, Rows, check_columns  # noqa: E402

LIMITS = Limits.of(1000, 1 << 20, append_crc=True)
NOW = dt.datetime.now(dt.UTC)
TYPES = {
    "topic": pa.string(),
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.list_(pa.string()),
    "properties": pa.map_(pa.string(), pa.string()),
    "queueId": pa.int64(),
    "delay": pa.int32(),
    "bornTimestamp": pa.timestamp("us", "UTC"),
    "flag": pa.int32(),
}


def batch(rows: list[dict[str, Any]], **types: Any) -> Any:
    names = {name: None for row in rows for name in row}
    kinds = {**TYPES, **types}
    columns = [pa.array([row.get(name) for row in rows], kinds[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def staged(rows: list[dict[str, Any]], topic: str | None = "T", **types: Any) -> list[Any]:
    checked = Rows(LIMITS, topic, "partition 0")
    out = [row for part in checked.staged([batch(rows, **types)]) for row in part.to_pylist()]
    assert checked.count == len(rows)
    return out


def test_a_row_of_everything() -> None:
    time = dt.datetime(2026, 1, 2, 3, 4, 5, 678900, dt.UTC)
    row = {
        "topic": None, "body": b"\xff\0", "tags": "a", "keys": ["k", "l"],
        "properties": {"x": "y"}, "queueId": 3, "delay": 18, "bornTimestamp": time, "flag": 7,
    }  # fmt: skip
    (found,) = staged([row])
    assert found == {
        "topic": "T", "body": b"\xff\0", "tags": "a", "keys": "k l", "properties": [("x", "y")],
        "queueId": 3, "delay": 18, "bornTimestamp": int(time.timestamp() * 1000), "flag": 7,
    }  # fmt: skip


def test_only_a_body_and_text_is_utf8() -> None:
    (found,) = staged([{"body": "Grüße"}], body=pa.string())
    assert found == dict.fromkeys(STAGED) | {"topic": "T", "body": "Grüße".encode()}


def test_a_time_of_delivery_is_in_ms() -> None:
    due = NOW + dt.timedelta(hours=1)
    (found,) = staged([{"body": b"", "delay": due}], delay=pa.timestamp("us", "UTC"))
    assert found["delay"] == int(due.timestamp() * 1_000_000) // 1000


def test_topics_and_their_highest_queues_are_counted() -> None:
    rows = Rows(LIMITS, None, "partition 0")
    parts = [{"body": b"", "topic": t, "queueId": q} for t, q in [("a", 1), ("b", None), ("a", 0)]]
    assert len(list(rows.staged([batch(parts), batch(parts[1:2])]))) == 2
    assert rows.topics == {"a": 1, "b": -1}


GOOD = {"topic": "T", "body": b"1"}
LONG = dt.datetime(1969, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"body": None}, r"row 3 of partition 0: body None is null"),
        ({"body": b"x" * 1001}, r"row 3 of .*: body of bytes: 1001 is too large, of 1000"),
        ({"topic": ""}, r"row 3 of .*: topic '' is no topic: the topic name is empty"),
        ({"topic": "a/b"}, r"row 3 of .*: topic 'a/b' is no topic: .* position 1"),
        ({"topic": "t" * 128}, r"at most 127"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, r"is a topic of the store's own"),
        ({"topic": None}, r"topic None is null, and there is no option topic"),
        ({"tags": "a\x01"}, r"row 3 of .*: tags 'a.x01' holds RocketMQ's separator"),
        ({"keys": ["a b"]}, r"row 3 of .*: keys 'a b' is null, empty, or has a space"),
        ({"keys": ["a", None]}, r"keys None is null"),
        ({"keys": [""]}, r"keys '' is null, empty"),
        ({"properties": {"UNIQ_KEY": "1"}}, r"row 3 of .*properties .* property UNIQ_KEY is set"),
        ({"properties": {"a": ""}}, r"value of property 'a' is empty"),
        ({"properties": {"a": "x" * 32705}}, r"row 3 .* bytes of properties 32\d+ are too many"),
        ({"keys": ["x" * 32700]}, r"bytes of properties 32\d+ are too many"),
        ({"queueId": -1}, r"row 3 of .*: queueId -1 is no number of a queue"),
        ({"queueId": 1 << 31}, r"queueId 2147483648 is no number"),
        ({"delay": 49}, r"row 3 of .*: delay 49 is no level from 0 to 48"),
        ({"delay": -1}, r"delay -1 is no level"),
        ({"flag": -1}, r"row 3 of .*: flag -1 is negative"),
        ({"bornTimestamp": LONG}, r"row 3 of .*: bornTimestamp -\d+ is too early a time"),
    ],
)
def test_bad_rows_are_named(row: dict[str, Any], what: str) -> None:
    rows = [GOOD, {**GOOD, "tags": "ok"}, {**GOOD, **row}, GOOD]
    with pytest.raises(BadRow, match=what):
        staged(rows, topic=None)


def test_a_time_too_far_ahead_is_refused() -> None:
    late = {"body": b"", "delay": NOW + dt.timedelta(days=4)}
    with pytest.raises(BadRow, match=r"row 1 .* is more than three days ahead"):
        staged([late], delay=pa.timestamp("us", "UTC"))


def test_rows_are_counted_over_batches() -> None:
    rows = Rows(LIMITS, "T", "partition 5")
    good, bad = batch([{"body": b"1"}] * 10), batch([{"body": b"1"}, {"body": None}])
    with pytest.raises(BadRow, match="row 22 of partition 5"):
        list(rows.staged([good, good, bad]))


def test_columns_are_named() -> None:
    check_columns([("body", "string"), ("delay", "timestamp"), ("keys", "array<string>")], "T")
    for columns, topic, what in (
        ([("body", "binary"), ("offset", "bigint")], "T", "unknown columns offset"),
        ([("topic", "string")], None, "no column body"),
        ([("body", "binary")], None, "no column topic, and no option topic"),
        ([("body", "int")], "T", "column body is int, not binary or string"),
        ([("body", "binary"), ("properties", "map<string,int>")], "T", "properties is map<string,"),
    ):
        with pytest.raises(BadRow, match=what):
            check_columns(columns, topic)
