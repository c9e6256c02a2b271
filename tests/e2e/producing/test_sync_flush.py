"""SYNC_FLUSH: what PUT_OK promises, and what is answered when the disk does not follow."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.checking.messages import read_topic
from support.harness import StoreProcess, eventually, tries_within

from silomq import (
    Consumer,
    Producer,
    PutMessageStatus,
    SendTimeout,
)
from silomq.client.groups.retry import send_back

if TYPE_CHECKING:
    from collections.abc import Iterator


# -- SYNC_FLUSH


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(
        tmp_path_factory.mktemp("sync") / "store",
        flush_disk_type="SYNC_FLUSH",
        sync_flush_timeout_ms=400,
        heartbeat_timeout_ms=60_000,
    ) as store:
        yield store


def test_put_ok_means_durable(synced: StoreProcess) -> None:
    with Producer(synced.path) as producer:
        for i in range(200):
            result = producer.send("t", b"x" * i)
            assert result.status == PutMessageStatus.PUT_OK
            end = result.physical_offset + 91 + len("t") + i
            assert synced.control.load("flushed") >= end
        futures = [producer.send_async("t", b"x") for _ in range(500)]
        before = synced.control.load("flushes")
        ends = [future.result(10).physical_offset for future in futures]
        assert synced.control.load("flushed") > max(ends)
        assert synced.control.load("flushes") - before < 250, "one sync serves many"


def test_cancels_and_what_is_sent_back_wait_for_syncs(synced: StoreProcess) -> None:
    with Producer(synced.path, timeout=10) as producer:
        waiting = producer.send("t", b"never", delay_ms=3_600_000)
        producer.send("back", b"again")
        with Consumer(synced.path, "back") as consumer:
            (message,) = consumer.poll(1, 10)
        send_back(producer, message, "group")  # makes the group's topic
        pid = synced.kill("flush", signal.SIGSTOP)
        try:
            answers = [producer.cancel(waiting), send_back(producer, message, "group")]
        finally:
            os.kill(pid, signal.SIGCONT)
    late = PutMessageStatus.FLUSH_DISK_TIMEOUT
    assert [answer.status for answer in answers] == [late, late]


def test_a_frozen_flush_is_a_status(synced: StoreProcess) -> None:
    with Producer(synced.path, timeout=10) as producer:
        producer.send("frozen", b"before", queue=0)
        pid = synced.kill("flush", signal.SIGSTOP)
        try:
            offsets: list[int] = []

            def send_in_vain() -> None:
                began = time.monotonic()
                result = producer.send("frozen", b"during", queue=0)
                assert time.monotonic() - began > 0.35
                assert result.status == PutMessageStatus.FLUSH_DISK_TIMEOUT
                offsets.append(result.queue_offset)

            def send_without_waiting() -> None:
                result = producer.send("frozen", b"no wait", queue=0, wait_store=False)
                assert result.status == PutMessageStatus.PUT_OK
                offsets.append(result.queue_offset)

            tries_within(1.5, send_in_vain)
            tries_within(0.2, send_without_waiting)
            assert offsets == list(range(1, 1 + len(offsets)))
            with pytest.raises(SendTimeout, match="appended, not yet durable"):
                producer.send("frozen", b"too short", queue=0, timeout=0.1)
            with Consumer(synced.path, "frozen", queues=[0]) as consumer:
                assert [view.body for view in consumer.poll(10, 5)] == [b"before"]
                # Longer than reput sleeps if nobody wakes it.
                assert consumer.poll(10, 1.5) == [], "what is not durable is not shown"
        finally:
            os.kill(pid, signal.SIGCONT)
        assert producer.send("frozen", b"after", queue=0).status == PutMessageStatus.PUT_OK
    count = 3 + len(offsets)
    eventually(lambda: len(read_topic(synced.path, "frozen")) == count, "all is shown", 5)
