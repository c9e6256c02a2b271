"""Transactions that a broker of RocketMQ 4 has begun, which writes an op record for each half. They
go on here, and there again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import BROKER4, require
from interop.transaction_peers import GROUP, SETTINGS, TOPIC, rocketmq
from support.deliveries import collect
from support.harness import StoreProcess, eventually
from support.transaction_load import NOTHING_WAITS

from silomq import Consumer, TransactionProducer
from silomq.store.names import TRANS_OP_HALF_TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import CheckedMessage

CLIENT = "4.9.8"


@pytest.mark.timeout(180)
def test_transactions_of_rocketmq_4_change_hands_twice(tmp_path: Path) -> None:
    for release in (BROKER4, CLIENT):
        require(release)
    with rocketmq(tmp_path, BROKER4, CLIENT, make=True) as client:
        client.begin(
            "commit commit done",
            "rollback rollback done",
            "unknown commit asked",
            "unknown rollback asked",
            "unknown unknown left",
            "unknown unknown kept",
            "unknown unknown dropped",
        )
        for body in ("commit asked", "rollback asked", "unknown left", "unknown dropped"):
            client.said(f"asked unknown {body}")
        time.sleep(2)  # its op records are written
    wanted = {b"commit commit done", b"unknown commit asked", b"unknown unknown kept"}
    answers = {b"kept": True, b"dropped": False, b"left": None}
    asked: set[bytes] = set()

    def answer(message: CheckedMessage) -> bool | None:
        asked.add(message.body)
        return answers[message.body.rpartition(b" ")[2]]

    settings = {
        **SETTINGS,
        "transaction_timeout_ms": 500,
        "transaction_op_msg_max_size": 1,
        "max_queues": 4096,  # RocketMQ's topic BenchmarkTest has 1,024
    }
    with StoreProcess(tmp_path / "store", **settings) as store:
        with Consumer(store.path, TRANS_OP_HALF_TOPIC) as consumer:
            ops = [view.body for view in consumer.poll(1000, 0)]
        assert ops, "RocketMQ has ended none"
        assert all(body.isdigit() for body in ops), ops
        with TransactionProducer(store.path, GROUP, check=answer):
            collect(store.path, TOPIC, wanted, grace=1.0).check(dict.fromkeys(wanted, 0))
            open_ones = {b"unknown unknown " + name for name in answers}
            eventually(lambda: asked == open_ones, "the open ones are asked about, and no other")
            time.sleep(1)  # the decisions are obeyed
        store.stop()
        with rocketmq(tmp_path, BROKER4, CLIENT) as client:
            client.begin("commit commit again")
            client.said("asked unknown unknown left")
            time.sleep(4)  # two rounds of its checks
            assert client.asked() == {"unknown unknown left"}
        answers[b"left"] = True
        wanted |= {b"commit commit again", b"unknown unknown left"}
        store.start()
        with TransactionProducer(store.path, GROUP, check=answer):
            collect(store.path, TOPIC, wanted, grace=1.0).check(dict.fromkeys(wanted, 0))
            eventually(
                lambda: store.control.load("trans_floor") == NOTHING_WAITS, "nothing is open"
            )
