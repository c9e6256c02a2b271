"""`silo query` against a real store: what it prints, and how it fails."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import sentence, silo
from support.harness import StoreProcess
from support.small_settings import SHIPPED_LIMITS

from silomq import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq import SendResult


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[SendResult]]]:
    store = tmp_path_factory.mktemp("query") / "store"
    with StoreProcess(store, base=SHIPPED_LIMITS), Producer(store) as producer:
        bodies = (b"one coffee", b"\x1b[31mred\xff", b"three")
        yield (
            store,
            [
                producer.send("orders", body, tags="drinks", keys=f"order-{i} all", queue=1)
                for i, body in enumerate(bodies)
            ],
        )


Sent = tuple["Path", "list[SendResult]"]


def lines(store: Path, *arguments: str) -> list[str]:
    return silo("query", *arguments, store=store).stdout.decode().splitlines()


def objects(store: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(store, *arguments, "--json")]


def test_an_id_leads_to_its_message(sent: Sent) -> None:
    store, results = sent
    found = lines(store, "id", results[0].offset_message_id, "--body")
    fields = dict(line.split(": ", 1) for line in found)
    fields = {name: value.strip() for name, value in fields.items()}
    assert fields["OffsetID"] == results[0].offset_message_id
    assert (fields["Topic"], fields["Tags"]) == ("orders", "[drinks]")
    assert (fields["Keys"], fields["Queue ID"]) == ("[order-0 all]", "1")
    assert (fields["Queue Offset"], fields["Reconsume Times"]) == ("0", "0")
    assert fields["CommitLog Offset"] == str(results[0].physical_offset)
    assert fields["Message Body"] == "one coffee"
    assert f"UNIQ_KEY={results[0].message_id}" in fields["Properties"]


def test_bodies_are_escaped(sent: Sent) -> None:
    store, results = sent
    found = lines(store, "offset", "orders", "1", "1", "--body")
    assert found[-1].endswith(r"\x1b[31mred\xff")
    assert not any("Message Body" in line for line in lines(store, "offset", "orders", "1", "1"))
    (value,) = objects(store, "offset", "orders", "1", "1", "--body")
    assert value["body_base64"] == "G1szMW1yZWT/"
    (value,) = objects(store, "offset", "orders", "1", "1")
    assert "body_base64" not in value
    assert value["body_size"] == 9
    assert value["message_id"] == results[1].message_id


def test_a_key_leads_to_its_messages(sent: Sent) -> None:
    store, results = sent
    head, *found = lines(store, "key", "orders", "all")
    assert head.split() == ["#Message", "ID", "#QID", "#Offset"]
    assert [line.split() for line in found] == [
        [r.message_id, "1", str(r.queue_offset)] for r in results
    ]
    values = objects(store, "key", "orders", "all", "--max", "2")
    assert [value["queue_offset"] for value in values] == [1, 2]
    values = objects(store, "key", "orders", "order-2", "--begin", "2020-01-01", "--body")
    assert [value["body"] for value in values] == ["three"]
    done = silo("query", "key", "orders", "all", "--end", "2020-01-01", store=store, status=1)
    assert "no message of topic orders with key 'all'" in sentence(done)


def test_a_unique_key_leads_to_its_message(sent: Sent) -> None:
    store, results = sent
    (value,) = objects(store, "unique", "orders", results[2].message_id or "")
    assert value["queue_offset"] == 2
    assert lines(store, "unique", "orders", results[2].message_id or "")[0].startswith("OffsetID:")
    done = silo("query", "unique", "orders", "A" * 32, store=store, status=1)
    assert "no message" in sentence(done)


def test_a_time_leads_to_an_offset(sent: Sent) -> None:
    store, _ = sent
    stored = [
        objects(store, "offset", "orders", "1", str(i))[0]["store_timestamp"] for i in range(3)
    ]
    assert lines(store, "time", "orders", "1", str(stored[0])) == ["0"]
    assert lines(store, "time", "orders", "1", str(stored[2] + 1)) == ["3"]
    assert lines(store, "time", "orders", "1", "2020-01-01 10:00") == ["0"]
    upper = max(i for i, at in enumerate(stored) if at <= stored[1])  # some may share a millisecond
    value = json.loads(
        silo(
            "query", "time", "orders", "1", str(stored[1]), "--upper", "--json", store=store
        ).stdout
    )
    assert value == {"topic": "orders", "queue_id": 1, "timestamp": stored[1], "offset": upper}


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (("id", "xyz"), 2, "32 or 56 hex digits"),
        (("id", "7F00000100002A9F00000000000000FF"), 1, "no message begins"),
        (("id", "7F00000100002A9F0FFFFFFFFFFFFFFF"), 2, "the commit log ends at"),
        (("key", "nowhere", "k"), 2, "topic 'nowhere' does not exist"),
        (("key", "orders", "k"), 1, "no message of topic orders"),
        (("key", "orders", "k", "--max", "0"), 2, "max 0"),
        (("key", "orders", "k", "--begin", "-1"), 2, "no time since 1970"),
        (("key", "orders", "k", "--begin", "yesterday"), 2, "no time since 1970"),
        (("key", "orders", "k", "--begin", "9" * 30), 2, "is no time"),
        (("unique", "orders", ""), 2, "empty key"),
        (("offset", "orders", "1", "3"), 2, "offsets 0 to 2"),
        (("offset", "orders", "99", "0"), 2, "it has queues 0 to 3"),
        (("offset", "orders", "1", "x"), 2, "not a valid integer"),
        (("time", "orders", "1", "2999-01-01"), 2, "in the future"),
        (("time", "nowhere", "1", "0"), 2, "does not exist"),
        (("time", "orders", "1", "0", "--upper"), 1, "no message stored at 0 or before"),
    ],
)
def test_failures_are_one_sentence_and_a_status(
    sent: Sent, arguments: tuple[str, ...], status: int, why: str
) -> None:
    assert why in sentence(silo("query", *arguments, store=sent[0], status=status))


def test_without_a_store_it_says_so(tmp_path: Path) -> None:
    done = silo("query", "offset", "t", "0", "0", store=tmp_path, status=1)
    assert "no store runs there" in sentence(done)


def test_what_was_just_sent_is_found(sent: Sent) -> None:
    store, _ = sent
    key = f"now{time.monotonic_ns()}"
    silo("send", "fresh", "x", "--keys", key, store=store)
    (value,) = objects(store, "key", "fresh", key)
    assert value["topic"] == "fresh"
