"""What a broker answers while its store cannot do what is asked: RocketMQ's codes."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from interop.conformance.requests import batch, bodies, short
from support import small_disks as disks
from support.broker_requests import pull_fields, send_fields
from support.brokers import BrokerProcess
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.remoting_client import RemotingClient
from support.small_settings import SMALL, options

from silomq import Producer
from silomq.store.disk.paths import file_name

if TYPE_CHECKING:
    from pathlib import Path

FLUSH_DISK_TIMEOUT = 10
SIZES = (
    "mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_hash_slot_num",
    "max_index_num",
)  # fmt: skip


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {
        "flush_disk_type": "SYNC_FLUSH",
        "sync_flush_timeout_ms": 400,
        "heartbeat_timeout_ms": 60_000,
    }


def end_of(fields: dict[str, str], size: int) -> int:
    """The log offset behind the message of an answer, whose body has `size` bytes, at least."""
    return int(fields["msgId"][-16:], 16) + 91 + size


def test_success_means_durable(store: StoreProcess, client: RemotingClient) -> None:
    for size in range(1, 200):
        answer = client.ask(10, send_fields("synced", f"K{size}"), b"x" * size)
        assert answer.code == 0
        assert store.control.load("flushed") >= end_of(answer.fields, size)
    before = store.control.load("flushes")
    opaques = [client.send(10, send_fields("synced", f"P{n}"), b"x") for n in range(500)]
    ends = [end_of(client.answer(opaque).fields, 1) for opaque in opaques]
    assert store.control.load("flushed") >= max(ends)
    assert store.control.load("flushes") - before < 250, "one sync serves many"


def test_a_late_sync_is_told(store: StoreProcess, client: RemotingClient) -> None:
    def shown() -> str:
        return client.ask(30, {"topic": "late", "queueId": 0}).fields["offset"]

    assert client.ask(10, send_fields("late"), b"before").code == 0
    eventually(lambda: shown() == "1", "the first is shown: flush tells reput after producers")
    pid = store.kill("flush", signal.SIGSTOP)
    try:
        began = time.monotonic()
        late = client.ask(10, send_fields("late"), b"during")
        assert time.monotonic() - began > 0.35
        assert (late.code, late.fields["queueOffset"]) == (FLUSH_DISK_TIMEOUT, "1")
        assert late.fields["msgId"]
        fields = send_fields("late", properties="UNIQ_KEY\x01N\x02WAIT\x01false\x02")
        assert client.ask(10, fields, b"does not wait").code == 0
        assert shown() == "1"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert client.ask(10, send_fields("late"), b"after").code == 0
    eventually(lambda: shown() == "4", "all is shown")


def test_permissions(client: RemotingClient) -> None:
    assert client.ask(10, send_fields("perm"), b"x").code == 0
    eventually(lambda: client.ask(11, pull_fields("perm")).code == 0, "it is dispatched")
    alter = {"topic": "perm", "readQueueNums": 1, "writeQueueNums": 1}
    assert client.ask(17, {**alter, "perm": 4}).code == 0
    for _ in range(2):
        assert client.ask(10, send_fields("perm"), b"x").code == 16
        assert client.ask(11, pull_fields("perm")).code == 0
    assert client.ask(17, {**alter, "perm": 2}).code == 0
    assert client.ask(10, send_fields("perm"), b"x").code == 0
    assert client.ask(11, pull_fields("perm")).code == 16


def test_a_full_disk(tmp_path: Path) -> None:
    with (
        disks.small_disk(tmp_path / "disk", 12 * disks.MIB) as folder,
        StoreProcess(folder / "store", clean_resource_interval_ms=3_600_000) as store,
        BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
    ):
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(5 << 20))
        answer, sent = client.ask(10, send_fields("t"), b"x" * 5_000), 0
        while answer.code == 0 and sent < 10_000:
            sent += 1
            answer = client.ask(10, send_fields("t"), b"x" * 5_000)
        assert answer.code == 1, answer.remark
        assert answer.remark, "it says why"
        assert sent > 10, "something fitted"
        assert client.ask(11, pull_fields("t")).code == 0, "reading goes on"
        ballast.unlink()
        eventually(lambda: client.ask(10, send_fields("t"), b"x").code == 0, "it goes on")
        assert "defect" not in broker.log()


def test_a_store_that_starts_after_its_broker(tmp_path: Path) -> None:
    """Its folder is not there yet: `silo serve & silo broker`."""
    store = StoreProcess(tmp_path / "store")
    broker = BrokerProcess(store.path, listen="127.0.0.1:0")
    starting = threading.Thread(target=broker.start)
    starting.start()
    time.sleep(1)
    with store:
        starting.join()
        with RemotingClient(broker.address) as client:
            assert client.ask(10, send_fields("t"), b"x").code == 0
        broker.stop()


def test_a_declared_hole_is_passed(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store")
    with store:
        with Producer(store.path) as producer:
            places = [
                producer.send("t", b"%d" % n, queue=0, tags="AB"[n % 2]).physical_offset
                for n in range(60)
            ]
        store.stop()
        with (store.path / "commitlog" / file_name(0)).open("r+b") as file:
            for number in (0, 10, 11):
                file.seek(places[number] + 4)
                file.write(b"damaged")
        sizes = {name: SMALL[name] for name in SIZES}
        silo("repair", str(store.path), "--holes", "--yes", *options(sizes))
        store.start()
        store.await_dispatch()
        with (
            BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
            RemotingClient(broker.address) as client,
        ):
            for tags, step in (("*", 1), ("A", 2)):
                found: list[bytes] = []
                offset, turns = 0, 0
                while offset < 60:
                    answer = client.ask(11, pull_fields("t", offset, subscription=tags))
                    assert answer.code in (0, 20), answer.remark
                    found += bodies(answer)
                    assert int(answer.fields["nextBeginOffset"]) > offset
                    offset, turns = int(answer.fields["nextBeginOffset"]), turns + 1
                assert found == [b"%d" % n for n in range(0, 60, step) if n not in (0, 10, 11)]
                assert turns < 20
            assert client.ask(11, pull_fields("t", 0)).fields["nextBeginOffset"] == "1"
            said = [line for line in broker.log().splitlines() if "declared hole" in line]
            assert len(said) == 2, "the log names each hole once"


def test_a_batch_that_is_too_long(tmp_path: Path) -> None:
    """Also one that needs a decision: the topic is new."""
    with (
        StoreProcess(tmp_path / "store", max_message_size=4096) as store,
        BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
    ):
        for topic in ("new", "known", "known"):
            if topic == "known":
                assert client.ask(10, send_fields(topic), b"x").code == 0
            for size, code in ((1024, 0), (1025, 13)):
                fields = short(send_fields(topic, batch="true"))
                answer = client.ask(320, fields, batch([(b"x" * size, {})] * 4))
                assert answer.code == code, answer.remark
                assert answer.code == 0 or "at most 4096" in str(answer.remark)


def test_what_waits_for_the_registry_is_bounded(tmp_path: Path) -> None:
    """It makes topics, and may be slow."""
    count, size = 200, 1 << 20
    with (
        StoreProcess(
            tmp_path / "store", heartbeat_timeout_ms=60_000, max_message_size=size,
            mapped_file_size_commit_log=256 << 20,
        ) as store,
        BrokerProcess(store.path, "max_unfinished_size=8388608", listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
    ):  # fmt: skip
        process = psutil.Process(broker.running.pid)
        before = process.memory_info().rss
        pid = store.kill("registry", signal.SIGSTOP)
        opaques: list[int] = []
        sending = threading.Thread(
            target=lambda: opaques.extend(
                client.send(10, send_fields("new", f"K{n}"), bytes(size)) for n in range(count)
            )
        )
        sending.start()
        try:
            time.sleep(1)
            assert sending.is_alive(), "it is read no further"
            assert process.memory_info().rss - before < 64 << 20
        finally:
            os.kill(pid, signal.SIGCONT)
        sending.join(60)
        answers = [client.answer(opaque) for opaque in opaques]
        assert [answer.code for answer in answers] == [0] * count
        assert [int(answer.fields["queueOffset"]) for answer in answers] == list(range(count))
