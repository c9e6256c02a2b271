"""Transactions that change hands: begun here, checked and ended by RocketMQ's broker, begun there,
and ended here. RocketMQ's own client answers its checks.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import BUILD, JAVA, NAMES, require
from interop.servers import BROKER, STARTS_WITHIN_S
from support.deliveries import collect
from support.harness import StoreProcess, eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient
from support.small_settings import SMALL
from support.transaction_load import NOTHING_WAITS, QUICK

from silomq import Consumer, Producer, TransactionProducer
from silomq.bench.broker.rocketmq import Jvm, RocketMQBroker
from silomq.client.transactions.transaction import send_decision
from silomq.store.names import TRANS_HALF_TOPIC
from silomq.store.transactions.decisions import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq import CheckedMessage, Transaction

TOPIC, GROUP = "t", "pg"
SETTINGS: dict[str, Any] = {
    **SMALL,
    **QUICK,
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 40960,
    "store_host": "127.0.0.1",
}
#: RocketMQ asks soon, and writes its op records at once: otherwise it commits twice itself.
RAPID = {
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1500",
    "transactionOpBatchInterval": "50",
    "timerWheelEnable": "false",
    "diskMaxUsedSpaceRatio": "99",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}
PATIENCE_S = 60.0


class JavaProducer:
    """RocketMQ's TransactionMQProducer; `TransactionClient.java` says what it does."""

    def __init__(self, folder: Path, names: str) -> None:
        place = BUILD / BROKER
        self._out = folder / "client.txt"
        with self._out.open("wb") as out, (folder / "client.err").open("wb") as err:
            self._process = subprocess.Popen(
                [
                    *JAVA, f"-Duser.home={folder}", "-cp", f"{place}/classes:{place}/lib/*",
                    "silomq.interop.TransactionClient", names, GROUP, TOPIC,
                ],
                stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=folder,
            )  # fmt: skip

    def begin(self, *bodies: str) -> None:
        assert self._process.stdin is not None
        for body in bodies:
            self._process.stdin.write(f"{body}\n".encode())
            self._process.stdin.flush()
            self.said(f"sent {body}")

    def times(self, line: str) -> int:
        return self._out.read_text().splitlines().count(line)

    def said(self, line: str) -> None:
        eventually(lambda: self.times(line), line, PATIENCE_S)

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def rocketmq(folder: Path) -> Iterator[JavaProducer]:
    """RocketMQ's broker on the store in `folder`, with a producer of the group. Both are killed."""
    sizes = {NAMES[name]: str(SETTINGS[name]) for name in NAMES if name in SETTINGS}
    place = BUILD / BROKER
    with name_server(folder / "names") as names:
        jvm = Jvm(f"{place}/classes:{place}/lib/*", JAVA[1:])
        broker = RocketMQBroker(folder, jvm, names.address, {**sizes, **RAPID})
        client = None
        try:

            def answers() -> bool:
                with contextlib.suppress(OSError), RemotingClient(broker.address) as asked:
                    return asked.ask(30, {"topic": TOPIC, "queueId": 0}).code == 0
                return False

            eventually(answers, "the broker answers", STARTS_WITHIN_S)
            with RemotingClient(names.address) as asked:
                eventually(
                    lambda: asked.ask(105, {"topic": TOPIC}).code == 0, "it registers", PATIENCE_S
                )
            client = JavaProducer(folder, names.address)
            yield client
        finally:
            if client is not None:
                client.end()
            broker.kill()


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
    (tmp_path / "names").mkdir()
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


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_rocketmq_does_not_end_again_what_has_ended(tmp_path: Path, *, killed: bool) -> None:
    """Also not if the store was killed, so that its offsets are older than its op records."""
    require(BROKER)
    (tmp_path / "names").mkdir()
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
            told = {line for line in client._out.read_text().splitlines() if "asked" in line}
            assert told == {"asked unknown commit theirs"}
        store.start()
        bodies.append(b"unknown commit theirs")
        collect(store.path, TOPIC, bodies, grace=0.5).check(dict.fromkeys(bodies, 0))
        eventually(lambda: store.control.load("trans_floor") == NOTHING_WAITS, "nothing is open")
