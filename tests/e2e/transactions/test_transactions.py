"""Transactions of local producers, with a real store."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.cleaned_stores import await_cleaned, await_durable
from support.deliveries import collect
from support.harness import StoreProcess, eventually
from support.small_settings import ALWAYS
from support.transaction_load import NOTHING_WAITS, QUICK

from silomq import (
    Admin,
    Consumer,
    IllegalMessage,
    IllegalType,
    Message,
    Producer,
    StoreClosed,
    TransactionProducer,
)
from silomq.client.transactions.transaction import send_decision
from silomq.store.errors import IllegalUse
from silomq.store.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_END_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from silomq.store.transactions.decisions import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq import CheckedMessage, MessageView, Transaction


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    settings = {**QUICK, "transaction_check_max": 3}
    with StoreProcess(tmp_path_factory.mktemp("transactions") / "store", **settings) as store:
        yield store


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A topic and a group for each test."""
    return "".join(c if c.isalnum() else "_" for c in request.node.name)[:100]


class Check:
    """Answers checks: `answers` by body; others are not known yet."""

    def __init__(self, **answers: bool) -> None:
        self.answers = answers
        self.asked: list[CheckedMessage] = []

    def __call__(self, message: CheckedMessage) -> bool | None:
        self.asked.append(message)
        return self.answers.get(message.body.decode())

    def times(self, body: bytes) -> list[int]:
        return [message.checks for message in self.asked if message.body == body]


def comes(store: StoreProcess, topic: str, *bodies: bytes, grace: float = 0.3) -> list[MessageView]:
    """Exactly these come, each once."""
    with Producer(store.path) as producer:
        producer.open_topic(topic)
    found = collect(store.path, topic, bodies, grace=grace)
    found.check(dict.fromkeys(bodies, 0))
    return found.views


def read(store: StoreProcess, topic: str) -> list[MessageView]:
    with Consumer(store.path, topic) as consumer:
        return consumer.poll(1000, 0)


def ended(store: StoreProcess) -> None:
    eventually(lambda: store.control.load("trans_floor") == NOTHING_WAITS, "nothing is open")


def test_commit_and_rollback(quick: StoreProcess, name: str) -> None:
    with TransactionProducer(quick.path, name) as producer:
        assert producer.group == name
        one = producer.begin(
            name, b"one", tags="a", keys=["k", "l"], properties={"p": "v"}, queue=2, flag=7
        )
        assert (one.topic, one.state) == (name, "open")
        assert one.half.topic == TRANS_HALF_TOPIC
        two = producer.begin(name, Message(b"two", tags="b"), shard_key="s")
        assert read(quick, name) == []
        assert one.commit().topic == TRANS_END_TOPIC
        assert (one.state, two.rollback().status, two.state) == ("committed", 0, "rolled back")
        with producer.begin(name, "three"):
            pass
        with pytest.raises(KeyError), producer.begin(name, "four"):
            raise KeyError
        found = {view.body: view for view in comes(quick, name, b"one", b"three")}
    view = found[b"one"]
    assert (view.queue_id, view.tags, view.keys, view.flag) == (2, "a", ["k", "l"], 7)
    assert view.message_id == one.message_id
    assert view.properties["p"] == "v"
    assert view.sys_flag & 0xC == 8
    ended(quick)
    bodies = b",".join(view.body for view in read(quick, TRANS_OP_HALF_TOPIC)).decode()
    assert {str(t.half.queue_offset) for t in (one, two)} <= set(bodies.split(","))


def test_run_does_the_local_part(quick: StoreProcess, name: str) -> None:
    done: list[Transaction] = []

    def local(transaction: Transaction) -> bool | None:
        done.append(transaction)
        return {b"yes": True, b"no": False}.get(body)

    with TransactionProducer(quick.path, name, check=Check(later=True)) as producer:
        for body in (b"yes", b"no", b"later"):
            producer.run(name, body, local)
        assert [t.state for t in done] == ["committed", "rolled back", "open"]

        def breaks(_: Transaction) -> bool:
            raise KeyError

        with pytest.raises(KeyError):
            producer.run(name, b"breaks", breaks)
        with pytest.raises(IllegalType, match="True, False or None"):
            producer.run(name, b"odd", lambda _: "yes")  # type: ignore[arg-type,return-value]
        with pytest.raises(IllegalType):
            producer.run(name, b"odd", None)  # type: ignore[arg-type]
        comes(quick, name, b"yes", b"later")


def test_producers_are_asked_until_they_know(quick: StoreProcess, name: str) -> None:
    check = Check(yes=True, no=False)
    with TransactionProducer(quick.path, name, check=check) as producer:
        begun = [producer.begin(name, body, keys="k") for body in ("yes", "no", "open")]
        eventually(lambda: len(check.times(b"open")) == 3, "it is asked")
        comes(quick, name, b"yes")
        ended(quick)
    assert check.times(b"yes") == check.times(b"no") == [1]
    assert check.times(b"open") == [1, 2, 3]
    asked = check.asked[0]
    assert (asked.topic, asked.message_id, asked.keys) == (name, begun[0].message_id, ("k",))
    given_up = {view.body: view for view in read(quick, TRANS_CHECK_MAX_TIME_TOPIC)}
    assert given_up[b"open"].message_id == begun[2].message_id
    assert given_up[b"open"].properties["REAL_TOPIC"] == name


def test_the_first_check_waits_as_long_as_the_message_says(quick: StoreProcess, name: str) -> None:
    check = Check(later=True, soon=True)
    with TransactionProducer(quick.path, name, check=check) as producer:
        later = producer.begin(name, b"later", first_check=2)
        producer.begin(name, b"soon")
        comes(quick, name, b"soon")
        found = comes(quick, name, b"soon", b"later")
    waited = {v.body: v.store_timestamp - later.half.store_timestamp for v in found}
    assert waited[b"later"] >= 2000
    assert check.times(b"later") == [1]


def test_a_decision_after_a_check_names_the_first_half(quick: StoreProcess, name: str) -> None:
    check = Check()
    with TransactionProducer(quick.path, name, check=check) as producer:
        transaction = producer.begin(name, b"late")
        eventually(lambda: check.asked, "it is asked")
        transaction.commit()
        comes(quick, name, b"late")


def test_several_producers_of_a_group(quick: StoreProcess, name: str) -> None:
    """One that begins and dies; two others are asked, and one of them knows."""
    knows, knows_not, other = Check(x=True), Check(), Check(x=False)
    with TransactionProducer(quick.path, name) as dying:
        dying.begin(name, b"x")
    with (
        TransactionProducer(quick.path, name, check=knows_not),
        TransactionProducer(quick.path, name, check=knows),
        TransactionProducer(quick.path, name + "_", check=other),
    ):
        comes(quick, name, b"x")
        eventually(lambda: knows.asked and knows_not.asked, "both are asked")
    assert other.asked == []


def test_decisions_that_move_nothing(quick: StoreProcess, name: str) -> None:
    """Replays, other groups, places within other records, other halves, none at all."""
    with TransactionProducer(quick.path, name) as producer, Producer(quick.path) as plain:
        ended_one = producer.begin(name, b"ended")
        ended_one.rollback()
        big = plain.send(name + "_", b"x" * 1000)
        first = producer.begin(name, b"first")
        second = producer.begin(name, b"second")
        good = Decision(True, first.half.queue_offset, first.half.physical_offset, name, "")
        for bad in (
            good._replace(group="other"),
            good._replace(queue_offset=second.half.queue_offset),
            good._replace(offset=second.half.physical_offset),
            good._replace(offset=good.offset + 20),
            good._replace(offset=big.physical_offset + 88),
            good._replace(offset=big.physical_offset),
            good._replace(queue_offset=2**62, offset=2**62),
            good._replace(offset=0),
            Decision(True, ended_one.half.queue_offset, ended_one.half.physical_offset, name, ""),
        ):
            send_decision(plain, bad)
        second.commit()
        second.commit()
        send_decision(plain, good._replace(commit=False))
        first.commit()  # too late
        comes(quick, name, b"second", grace=0.5)
    assert "halves or decisions of transactions were refused" in quick.log()


def test_clients_cannot_send_to_the_topics_of_transactions(quick: StoreProcess) -> None:
    with Producer(quick.path) as producer, Admin(quick.path) as admin:
        for topic in (
            TRANS_HALF_TOPIC,
            TRANS_OP_HALF_TOPIC,
            TRANS_END_TOPIC,
            TRANS_CHECK_MAX_TIME_TOPIC,
        ):
            with pytest.raises(IllegalMessage, match="the store's own"):
                producer.send(topic, b"x")
            with pytest.raises(IllegalMessage, match="cannot be changed or deleted"):
                admin.delete_topic(topic)


@pytest.mark.parametrize(
    "properties",
    [
        {"PGROUP": "x"}, {"TRAN_MSG": "true"}, {"TRANSACTION_CHECK_TIMES": "1"},
        {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}, {"TRAN_PREPARED_QUEUE_OFFSET": "1"},
        {"TRAN_FIRST_HALF": "1 1"}, {"INNER_MULTI_DISPATCH": "%LMQ%a"},
    ],
    ids=str,
)  # fmt: skip
def test_properties_that_the_store_sets(quick: StoreProcess, properties: dict[str, str]) -> None:
    with TransactionProducer(quick.path, "g") as producer, pytest.raises(IllegalMessage):
        producer.begin("t", b"x", properties=properties)


def test_a_deleted_topic_is_made_again(quick: StoreProcess, name: str) -> None:
    with TransactionProducer(quick.path, name) as producer, Admin(quick.path) as admin:
        transaction = producer.begin(name, b"x", queue=3)
        admin.delete_topic(name)
        transaction.commit()
        eventually(lambda: name in {topic.topic for topic in admin.topics()}, "it is there")
        comes(quick, name, b"x")


def test_a_check_that_fails_is_asked_again(quick: StoreProcess, name: str) -> None:
    asked = []

    def check(message: CheckedMessage) -> bool:
        asked.append(message.checks)
        if len(asked) == 1:
            raise KeyError
        return len(asked) > 2 or "yes"  # type: ignore[return-value]

    with TransactionProducer(quick.path, name, check=check) as producer:
        producer.begin(name, b"x")
        comes(quick, name, b"x")
    assert asked == [1, 2, 3]


def test_closing_within_a_check(quick: StoreProcess, name: str) -> None:
    closed = threading.Event()

    def check(_: CheckedMessage) -> None:
        producer.close()
        closed.set()

    producer = TransactionProducer(quick.path, name, check=check)
    transaction = producer.begin(name, b"x")
    assert closed.wait(10)
    with pytest.raises(StoreClosed):
        transaction.commit()
    producer.close()
    with pytest.raises(StoreClosed):
        producer.begin(name, b"y")
    with TransactionProducer(quick.path, name, check=Check(x=False)):
        ended(quick)


def test_a_transaction_is_decided_once(quick: StoreProcess, name: str) -> None:
    with TransactionProducer(quick.path, name) as producer:
        transaction = producer.begin(name, b"x")
        transaction.rollback()
        with pytest.raises(IllegalUse, match="rolled back already"):
            transaction.commit()


def test_a_missing_topic_holds_up_no_other(tmp_path: Path) -> None:
    """The committed message waits, also over a restart, and comes when there is room for it."""
    settings = {**QUICK, "max_topics": 12, "max_queues": 64}
    with StoreProcess(tmp_path / "store", **settings) as store:
        with TransactionProducer(store.path, "pg") as producer, Admin(store.path) as admin:
            waiting = producer.begin("gone", b"waits", queue=0, first_check=3600)
            admin.delete_topic("gone")
            names = [f"filler{i}" for i in range(12)]
            for filler in names:
                try:
                    admin.create_topic(filler, 1)
                except Exception:  # noqa: BLE001 - the table is full
                    break
            waiting.commit()
            kept = names[0]
            for body in (b"a", b"b"):
                with producer.begin(kept, body, queue=0):
                    pass
            comes(store, kept, b"a", b"b")
            eventually(lambda: "waits for a topic" in store.log(), "it waits")
            store.replace("transactions")
            with producer.begin(kept, b"c", queue=0):
                pass
            comes(store, kept, b"a", b"b", b"c")
        store.stop()
        store.settings["max_topics"] = 20
        store.start()
        eventually(lambda: store.table.find("gone"), "there is room for it")
        comes(store, "gone", b"waits")


def test_a_commit_survives_a_stop_at_once(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store", **{**QUICK, "flush_disk_type": "SYNC_FLUSH"})
    with store:
        with TransactionProducer(store.path, "pg") as producer:
            begun = [producer.begin("t", b"%d" % i) for i in range(20)]
            levels = {transaction.commit().level for transaction in begun}
            store.stop()
        assert levels == {"durable"}
        store.start()
        comes(store, "t", *(b"%d" % i for i in range(20)))
        ended(store)


def test_clean_keeps_what_open_transactions_need(tmp_path: Path) -> None:
    settings = {**ALWAYS, **QUICK, "transaction_timeout_ms": 60_000}
    with (
        StoreProcess(tmp_path / "store", **settings) as store,
        TransactionProducer(store.path, "pg") as producer,
        Producer(store.path) as plain,
    ):
        transaction = producer.begin("t", b"kept")
        eventually(lambda: store.control.load("trans_floor") == 0, "it waits")
        for _ in range(40):
            plain.send("t", bytes(10_000))
        await_durable(store)
        time.sleep(1.0)
        assert store.control.load("min_offset") == 0
        transaction.commit()
        assert b"kept" in collect(store.path, "t", [b"kept"], timeout=15).times
        await_cleaned(store)


def test_an_idle_process_sleeps(quick: StoreProcess) -> None:
    ended(quick)
    store_pid = quick.pid("transactions")

    def used() -> float:
        with open(f"/proc/{store_pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    before = used()
    time.sleep(1.0)
    assert used() - before < 0.2
