"""What the store answers when it takes no messages, and that it takes them again."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.messages import check_store
from support.checking.sent import Begun, Sent
from support.cleaned_stores import await_quiet_clean
from support.commands import silo
from support.harness import LONG, StoreProcess, eventually
from support.load.messages import KINDS, body_of
from support.small_disks import MIB, fill_to, small_disk, used_percent

from silomq import Admin, Consumer, IllegalMessage, Producer, PutMessageStatus, SendTimeout
from silomq.client.producing._sender import session_of
from silomq.client.producing.send_session import Hold
from silomq.shm.control import ACTORS, HEARTBEAT_SIZE
from silomq.store.retention.rules import DiskFlag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY = PutMessageStatus.OS_PAGE_CACHE_BUSY
OK = PutMessageStatus.PUT_OK
NOT_NOW = PutMessageStatus.SERVICE_NOT_AVAILABLE
FULL = DiskFlag.DISK_FULL | DiskFlag.LOGIC_DISK_FULL
#: Looks at the disk all the time, and removes nothing before its time.
WATCHFUL: dict[str, Any] = {
    "clean_resource_interval_ms": 50,
    "clean_file_forcibly_enable": "false",
    "flush_interval_commit_log_ms": 10,
    "flush_interval_consume_queue_ms": 10,
    "flush_consume_queue_thorough_interval_ms": 20,
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB; a store of the tests' kind starts with about 4."""
    with small_disk(tmp_path / "disk", 32 * MIB) as folder:
        yield folder


def flags(store: StoreProcess) -> int:
    return store.control.load("disk_flags")


def await_flags(store: StoreProcess, wanted: DiskFlag) -> None:
    """Waits until clean has set these flags, and append goes by them. Clean looks at the two disks
    one after the other. Append looks at the flags at the begin of a round: a message that it finds
    in an older round is taken.
    """
    eventually(lambda: flags(store) == wanted, f"the flags are {wanted!r}")
    store.await_beat("append")


def answer(producer: Producer) -> PutMessageStatus:
    """What the store says to a message."""
    try:
        return producer.send("alpha", b"x").status
    except IllegalMessage as error:
        return error.status


# -- a disk that is too full


def test_above_the_warning_ratio_puts_are_refused_with_a_reason(disk: Path) -> None:
    with (
        StoreProcess(disk / "store", **WATCHFUL) as store,
        Producer(store.path, timeout=10.0) as producer,
    ):
        producer.send("alpha", b"first")
        ballast = fill_to(disk, 92)
        await_flags(store, FULL)
        with pytest.raises(IllegalMessage, match=r"disk is too full \(9[23] % used\)") as error:
            producer.send("alpha", b"x")
        assert error.value.status == NOT_NOW
        with Consumer(store.path, "alpha") as consumer:
            (view,) = consumer.poll(5, 5.0)
        assert view.body == b"first", "reading goes on"
        with Admin(store.path) as admin:
            found = admin.status()["disk"]
        assert found["flags"] == ["DISK_FULL", "LOGIC_DISK_FULL"]
        assert found["log_used_percent"] in (92, 93)
        shown = silo("status", store=store.path)
        assert b"the store takes no messages" in shown.stderr
        assert b"DISK_FULL" in shown.stdout
        # In the band below it stays as it is.
        os.truncate(ballast, ballast.stat().st_size - 32 * MIB * 4 // 100)
        assert 85 < used_percent(disk) < 90
        seen = store.control.load("log_disk_used")
        eventually(lambda: store.control.load("log_disk_used") < seen, "clean has looked again")
        assert answer(producer) == NOT_NOW
        os.truncate(ballast, ballast.stat().st_size - 32 * MIB * 6 // 100)
        await_flags(store, DiskFlag(0))
        assert answer(producer) == OK
        assert silo("status", store=store.path).stderr == b""


def test_in_the_band_a_store_that_took_messages_goes_on(disk: Path) -> None:
    with (
        StoreProcess(disk / "store", **WATCHFUL) as store,
        Producer(store.path, timeout=10.0) as producer,
    ):
        assert answer(producer) == OK
        fill_to(disk, 88)
        eventually(lambda: store.control.load("log_disk_used") > 85, "clean has looked")
        assert answer(producer) == OK
        assert flags(store) == 0


def test_a_store_on_a_full_disk_starts_and_refuses(disk: Path) -> None:
    store = StoreProcess(disk / "store", **WATCHFUL)
    with store, Producer(store.path, timeout=10.0) as producer:
        assert answer(producer) == OK
    ballast = fill_to(disk, 87)  # the next files are made before the flag is looked at
    with store, Producer(store.path, timeout=10.0) as producer:
        eventually(lambda: used_percent(disk) > 90, "the next files are made")
        await_flags(store, FULL)
        assert answer(producer) == NOT_NOW
        ballast.unlink()
        await_flags(store, DiskFlag(0))
        assert answer(producer) == OK


def test_flags_outlive_a_killed_clean(disk: Path) -> None:
    with (
        StoreProcess(disk / "store", **WATCHFUL) as store,
        Producer(store.path, timeout=10.0) as producer,
    ):
        assert answer(producer) == OK
        ballast = fill_to(disk, 92)
        await_flags(store, FULL)
        store.replace("clean")
        assert flags(store)
        assert answer(producer) == NOT_NOW
        ballast.unlink()
        await_flags(store, DiskFlag(0))
        assert answer(producer) == OK


@pytest.mark.parametrize("count", [1000, pytest.param(1600, marks=LONG)])
def test_a_disk_far_smaller_than_the_load_is_kept_free(disk: Path, count: int) -> None:
    """The oldest files go before their time: twice what the disk holds goes through it, in the long
    form three times.
    """
    settings = {**WATCHFUL, "clean_file_forcibly_enable": "true"}
    with StoreProcess(disk / "store", **settings) as store:
        sent = Sent()
        refused: set[PutMessageStatus] = set()
        with Producer(store.path, timeout=10.0) as producer:
            for sequence in range(count):
                result = None
                while result is None:
                    try:
                        result = producer.send("alpha", long_body(0, sequence), queue=sequence % 4)
                    except IllegalMessage as error:
                        refused.add(error.status)
                        time.sleep(0.02)
                sent.begin(Begun(0, sequence, "alpha", sequence % 4, "long"))
                sent.acknowledge(result, 0, [sequence])
        eventually(lambda: used_percent(disk) <= 86, "the disk is kept free")
        least = await_quiet_clean(store)
        assert least > 32 * MIB
        check_store(store, sent, ("alpha",), start=least)
    assert refused <= {NOT_NOW, PutMessageStatus.CREATE_MAPPED_FILE_FAILED}


def long_body(producer: int, sequence: int) -> bytes:
    return KINDS["long"](producer, sequence).body


# -- append is stuck


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[tuple[StoreProcess, Producer]]:
    """A store whose append does not move, and a producer with a small ring; it moves again at the
    end.
    """
    settings: dict[str, Any] = {
        "os_page_cache_busy_timeout_ms": 200,
        "heartbeat_timeout_ms": 600_000,
    }
    with (
        StoreProcess(tmp_path / "store", **settings) as store,
        Producer(store.path, ring_size=65536, timeout=20.0) as producer,
    ):
        producer.send("alpha", body_of(0, 0), queue=0)
        # Frozen at work: a sleeping append is woken first.
        pid = store.pid("append")
        while True:
            producer.send_oneway("alpha", b"wake", queue=1)
            os.kill(pid, signal.SIGSTOP)
            if not store.control.load("append_asleep"):
                break
            os.kill(pid, signal.SIGCONT)
        try:
            yield store, producer
        finally:
            os.kill(pid, signal.SIGCONT)


def resume(store: StoreProcess) -> None:
    """Lets append move, and waits until it has come round."""
    beat = store.control.word("heartbeat", HEARTBEAT_SIZE * ACTORS.index("append"))
    seen = beat.load()
    store.kill("append", signal.SIGCONT)
    eventually(lambda: beat.load() != seen, "append goes on")


def test_a_full_ring_of_a_stuck_append_is_page_cache_busy(
    stuck: tuple[StoreProcess, Producer],
) -> None:
    store, producer = stuck

    def send_for_ever() -> None:
        for _ in range(1000):
            producer.send_oneway("beta", b"x" * 1000)

    with pytest.raises(IllegalMessage, match="busy with one batch for") as error:
        send_for_ever()
    assert error.value.status == BUSY
    began = time.monotonic()
    with pytest.raises(IllegalMessage) as error:
        producer.send("beta", b"y")
    assert error.value.status == BUSY
    assert time.monotonic() - began < 5, "not after the producer's time-out of 20 s"
    resume(store)
    assert producer.send("beta", b"z").status == OK


def test_after_a_wait_in_vain_puts_are_refused_until_append_moves(
    stuck: tuple[StoreProcess, Producer],
) -> None:
    store, producer = stuck
    with pytest.raises(SendTimeout, match="may still be stored"):
        producer.send("alpha", body_of(0, 1), queue=0, timeout=0.6)
    with pytest.raises(IllegalMessage) as error:
        producer.send("alpha", body_of(0, 2), queue=0)
    assert error.value.status == BUSY
    with pytest.raises(IllegalMessage) as error:
        producer.send_batch("alpha", [body_of(0, 3)], queue=0)
    assert error.value.status == BUSY
    resume(store)
    result = producer.send("alpha", body_of(0, 4), queue=0)
    assert result.queue_offset == 2, "what was refused is not stored, what timed out is"


def test_a_sleeping_append_is_not_busy(tmp_path: Path) -> None:
    """It beats once a second, which is more than the limit here."""
    settings: dict[str, Any] = {
        "os_page_cache_busy_timeout_ms": 200,
        "heartbeat_timeout_ms": 600_000,
    }
    with (
        StoreProcess(tmp_path / "store", **settings) as store,
        Producer(store.path, timeout=10.0) as producer,
    ):
        producer.send("alpha", b"x")
        eventually(lambda: store.control.load("append_asleep"), "append sleeps")
        pid = store.kill("append", signal.SIGSTOP)
        try:
            with pytest.raises(SendTimeout):
                producer.send("alpha", b"y", timeout=0.5)
            assert not session_of(producer).ring.holds & Hold.STALLED
        finally:
            os.kill(pid, signal.SIGCONT)
        assert producer.send("alpha", b"z").queue_offset >= 0
