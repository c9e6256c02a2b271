"""What a broker answers while its store cannot do what is asked: RocketMQ's codes."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support import small_disks as disks
from support.broker_requests import pull_fields, send_fields
from support.brokers import BrokerProcess
from support.harness import StoreProcess, eventually
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from pathlib import Path

FLUSH_DISK_TIMEOUT = 10


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
    assert client.ask(10, send_fields("late"), b"before").code == 0
    pid = store.kill("flush", signal.SIGSTOP)
    try:
        began = time.monotonic()
        late = client.ask(10, send_fields("late"), b"during")
        assert time.monotonic() - began > 0.35
        assert (late.code, late.fields["queueOffset"]) == (FLUSH_DISK_TIMEOUT, "1")
        assert late.fields["msgId"]
        fields = send_fields("late", properties="UNIQ_KEY\x01N\x02WAIT\x01false\x02")
        assert client.ask(10, fields, b"does not wait").code == 0
        assert client.ask(30, {"topic": "late", "queueId": 0}).fields == {"offset": "1"}
    finally:
        os.kill(pid, signal.SIGCONT)
    assert client.ask(10, send_fields("late"), b"after").code == 0
    eventually(
        lambda: client.ask(30, {"topic": "late", "queueId": 0}).fields["offset"] == "4",
        "all is shown",
    )


def test_permissions(client: RemotingClient) -> None:
    assert client.ask(10, send_fields("perm"), b"x").code == 0
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
