"""`silo transactions`, as a user runs it: a running store, a stopped one, and wrong ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.commands import sentence, silo
from support.harness import StoreProcess, eventually

from silomq import Consumer, TransactionProducer

if TYPE_CHECKING:
    from pathlib import Path


def test_open_transactions_are_listed_and_ended(store: Path) -> None:
    with TransactionProducer(store, "shop") as producer, TransactionProducer(store, "bank") as bank:
        with producer.begin("orders", b"ended"):
            pass
        kept, lost = producer.begin("orders", b"kept", queue=1), producer.begin("orders", b"lost")
        other = bank.begin("orders", b"other")
        shown = silo("transactions", store=store).stdout.decode()
        assert "Open: 3" in shown
        rows = [line.split() for line in shown.splitlines()]
        assert [kept.message_id, "shop", "orders", "1"] in [row[:4] for row in rows]
        found = json.loads(silo("transactions", "--group", "shop", "--json", store=store).stdout)
        assert [one["message_id"] for one in found] == [kept.message_id, lost.message_id]
        assert {"group", "checks", "age_ms", "queue_offset", "physical_offset"} <= set(found[0])
        done = silo("transactions", "commit", kept.message_id, store=store)
        assert b"committed" in done.stderr
        answer = silo("transactions", "rollback", lost.message_id, "--json", store=store)
        assert json.loads(answer.stdout)["decision"] == "rolled back"
        eventually(
            lambda: b"Open: 1" in silo("transactions", store=store).stdout, "both have ended"
        )
        with Consumer(store, "orders", offset="earliest") as consumer:
            (first,), (second,) = (consumer.poll(1, timeout=30) for _ in range(2))
            assert {first.body, second.body} == {b"ended", b"kept"}
            assert consumer.poll(1, timeout=0.3) == []
        other.rollback()


def test_a_stopped_store_is_shown(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        assert b"Open: 0" in silo("transactions", store=store.path).stdout
        with TransactionProducer(store.path, "shop") as producer:
            with producer.begin("orders", b"ended"):
                pass
            left = producer.begin("orders", b"left")
    done = silo("transactions", "--json", store=store.path)
    assert [one["message_id"] for one in json.loads(done.stdout)] == [left.message_id]
    assert b"no store runs" in done.stderr


def test_what_cannot_be_ended(store: Path, tmp_path: Path) -> None:
    with TransactionProducer(store, "shop") as producer:
        with producer.begin("orders", b"ended") as done:
            pass
        eventually(
            lambda: done.message_id.encode() not in silo("transactions", store=store).stdout,
            "it has ended",
        )
    for wrong in (done.message_id, "nothing", "\x1b[31m"):
        said = sentence(silo("transactions", "commit", wrong, store=store, status=1))
        assert "no transaction" in said
        assert "\x1b" not in said
    assert "usage" not in sentence(silo("transactions", store=tmp_path / "no", status=1)).lower()
    silo("transactions", "commit", store=store, status=2)
