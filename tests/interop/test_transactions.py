"""Transactions that change hands: begun here, checked and ended by RocketMQ's broker, begun there,
and ended here. RocketMQ's own client answers its checks.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import require
from interop.servers import BROKER
from interop.transaction_peers import GROUP, SETTINGS, TOPIC, JavaProducer, rocketmq
from support.deliveries import collect
from support.harness import LONG, StoreProcess, eventually
from support.transaction_load import NOTHING_WAITS

from silomq import Consumer, Producer, TransactionProducer
from silomq.client.transactions.transaction import send_decision
from silomq.store.names import TRANS_HALF_TOPIC
from silomq.store.transactions.decisions import Decision

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import CheckedMessage, Transaction


def bodies_of(store: StoreProcess, topic: str) -> list[bytes]:
    with Consumer(store.path, topic) as consumer:
        return [view.body for view in consumer.poll(10_000, 0)]


def check(message: CheckedMessage) -> bool | None:
    return {b"commit": True, b"rollback": False}.get(message.body.split(b" ")[1])


def decide(producer: Producer, transaction: Transaction, *, commit: bool) -> None:
    half = transaction.half
    send_decision(producer, Decision(commit, half.queue_offset, half.physical_offset, GROUP, ""))


def theirs(client: JavaProducer) -> None:
    """What RocketMQ does with our transactions, and with its own."""
    client.said("asked unknown commit ours")
    client.said("asked unknown rollback ours")
    client.begin(
        "commit commit theirs",
        "rollback rollback theirs",
        "unknown commit theirs",
        "unknown rollback theirs",
        "unknown unknown theirs",
        "unknown commit immune",
        "commit commit immune",
    )
    client.said("asked unknown commit theirs")
    client.said("asked unknown unknown theirs")
    time.sleep(4)  # two rounds of its checks: it has put immune halves once more
    assert client.times("asked commit commit ours") == 0
    client.begin("commit commit last")  # the broker dies over its decision or op record


def test_transactions_change_hands_twice(tmp_path: Path) -> None:
    require(BROKER)
    settings = {**SETTINGS, "transaction_timeout_ms": 60_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        with TransactionProducer(store.path, GROUP) as producer:
            producer.begin(TOPIC, "commit commit ours", queue=0).commit()
            producer.begin(TOPIC, "rollback rollback ours").rollback()
            producer.begin(TOPIC, "unknown commit ours", flag=7)
            producer.begin(TOPIC, "unknown rollback ours")
            kept = producer.begin(TOPIC, "unknown commit kept", first_check=3600)
            gone = producer.begin(TOPIC, "unknown rollback gone", first_check=3600)
        wanted = {b"commit commit ours"}
        collect(store.path, TOPIC, wanted, grace=0.2).check(dict.fromkeys(wanted, 0))
        store.stop()
        with rocketmq(tmp_path) as client:
            theirs(client)
        store.settings["transaction_timeout_ms"] = 500
        store.start()
        asked: set[bytes] = set()

        def answer(message: CheckedMessage) -> bool | None:
            asked.add(message.body)
            return True if b"unknown theirs" in message.body else check(message)

        with (
            TransactionProducer(store.path, GROUP, check=answer),
            Producer(store.path) as plain,
        ):
            decide(plain, kept, commit=True)
            decide(plain, gone, commit=False)
            wanted |= {
                b"unknown commit ours", b"commit commit theirs", b"unknown commit theirs",
                b"commit commit immune", b"commit commit last",
                b"unknown commit kept", b"unknown unknown theirs",
            }  # fmt: skip
            collect(store.path, TOPIC, wanted, grace=1.0).check(dict.fromkeys(wanted, 0))
            assert asked - {b"commit commit last"} == {b"unknown unknown theirs"}
        left = [body for body in bodies_of(store, TRANS_HALF_TOPIC) if b"immune" in body]
        assert left.count(b"unknown commit immune") > 1, "RocketMQ has not put it once more"
        assert store.control.load("trans_floor") != NOTHING_WAITS
        store.stop()


# The transactions that change hands twice are of a store that was stopped.
@pytest.mark.parametrize(
    "killed", [pytest.param(False, marks=LONG), True], ids=["stopped", "killed"]
)
def test_rocketmq_does_not_end_again_what_has_ended(tmp_path: Path, *, killed: bool) -> None:
    """Also not if the store was killed, so that its offsets are older than its op records."""
    require(BROKER)
    bodies = [b"commit commit %d" % i for i in range(300)]
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        with TransactionProducer(store.path, GROUP) as producer:
            for body in bodies:
                with producer.begin(TOPIC, body):
                    pass
                with contextlib.suppress(KeyError), producer.begin(TOPIC, b"rolled back"):
                    raise KeyError
        collect(store.path, TOPIC, bodies, grace=0.2).check(dict.fromkeys(bodies, 0))
        if killed:
            store.crash()
        else:
            store.stop()
        with rocketmq(tmp_path) as client:
            client.begin("unknown commit theirs")
            client.said("asked unknown commit theirs")
            time.sleep(1)
            assert client.asked() == {"unknown commit theirs"}
        store.start()
        bodies.append(b"unknown commit theirs")
        collect(store.path, TOPIC, bodies, grace=0.5).check(dict.fromkeys(bodies, 0))
        eventually(lambda: store.control.load("trans_floor") == NOTHING_WAITS, "nothing is open")
