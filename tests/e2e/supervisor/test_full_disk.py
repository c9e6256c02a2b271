"""A disk that runs full: puts are refused, reading goes on, and space is all that is needed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import small_disks as disks
from support.checking.messages import check_store
from support.checking.sent import Begun, Sent
from support.cleaned_stores import await_quiet_clean
from support.harness import LONG, StoreProcess, eventually
from support.load.messages import KINDS, body_of

from silomq import Admin, Consumer, IllegalMessage, Producer, PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Iterator


# -- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB."""
    with disks.small_disk(tmp_path / "disk", 12 * disks.MIB) as folder:
        yield folder


#: Nobody looks how full the disk is: it runs full in the middle of things.
UNWATCHED: dict[str, Any] = {"clean_resource_interval_ms": 3_600_000}


def fill_up(
    producer: Producer, sent: Sent, first: int, kind: str = "long"
) -> tuple[int, IllegalMessage]:
    """Sends messages of `kind` until the store refuses: the next sequence number, and what it said.
    With an empty `kind` they are short.
    """
    for sequence in range(first, first + 100_000):
        body = KINDS[kind](0, sequence).body if kind else body_of(0, sequence)
        try:
            result = producer.send("alpha", body, queue=sequence % 4)
        except IllegalMessage as error:
            sent.refuse(0, sequence, "alpha", sequence % 4)
            return sequence + 1, error
        sent.begin(Begun(0, sequence, "alpha", sequence % 4, kind))
        sent.acknowledge(result, 0, [sequence])
    raise AssertionError("the disk does not fill up")


@pytest.mark.parametrize("kind", ["long", pytest.param("", marks=LONG, id="short")])
@pytest.mark.parametrize("victim", [None, "append", "allocate", "reput"])
def test_a_full_disk_refuses_and_recovers(small_disk: Path, victim: str | None, kind: str) -> None:
    with StoreProcess(small_disk / "store", **UNWATCHED) as store:
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"\0" * (5 << 20))
        sent = Sent()
        pids = store.pids()
        with Producer(store.path, timeout=10.0) as producer:
            following, error = fill_up(producer, sent, 0, kind)
            assert error.status == PutMessageStatus.CREATE_MAPPED_FILE_FAILED
            assert sent.acks, "something fitted"
            if victim is not None:
                pid = store.kill(victim)
                eventually(lambda: store.is_ready(victim, but_not=pid), f"{victim} serves", 5)
                following, error = fill_up(producer, sent, following, kind)
                assert error.status == PutMessageStatus.CREATE_MAPPED_FILE_FAILED
            ballast.unlink()
            accepted = _first_accepted(producer, sent, following)
            following, error = fill_up(producer, sent, accepted + 1, kind)
            assert error.status == PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        assert {a: p for a, p in store.pids().items() if a != victim} == {
            a: p for a, p in pids.items() if a != victim
        }, "nobody else died"
        assert store.running.poll() is None
        check_store(store, sent, ("alpha",))


def _first_accepted(producer: Producer, sent: Sent, first: int) -> int:
    """Tries again for 5 s: the sequence number of the first message that the store takes."""
    deadline = time.monotonic() + 5
    for sequence in range(first, first + 1000):
        try:
            result = producer.send("alpha", body_of(0, sequence), queue=sequence % 4)
        except IllegalMessage:
            sent.refuse(0, sequence, "alpha", sequence % 4)
        else:
            sent.answered(result, 0, sequence)
            return sequence
        assert time.monotonic() < deadline, "puts are refused although there is space"
        time.sleep(0.05)
    raise AssertionError


def test_readers_are_served_from_a_full_disk(small_disk: Path) -> None:
    with StoreProcess(small_disk / "store", **UNWATCHED) as store:
        (small_disk / "ballast").write_bytes(b"\0" * (5 << 20))
        sent = Sent()
        with Producer(store.path, timeout=10.0) as producer:
            fill_up(producer, sent, 0)
        with Consumer(store.path, "alpha") as consumer:
            found = 0
            while found < len(sent.acks):
                messages = consumer.poll(1000, 5.0)
                assert messages
                found += len(messages)


def test_queues_and_index_wait_for_space(small_disk: Path) -> None:
    """The log has a file, the disk has nothing left: messages are taken in, and seen later."""
    settings: dict[str, Any] = {
        **UNWATCHED,
        "max_index_num": 300,
        "flush_consume_queue_thorough_interval_ms": 50,
    }
    with (
        StoreProcess(small_disk / "store", **settings) as store,
        Producer(store.path, timeout=10.0) as producer,
    ):
        sent = Sent()
        for sequence in range(50):
            _send(producer, sent, sequence)
        progress = store.path / "silomq" / "progress"
        eventually(lambda: any(progress.read_bytes()), "progress is recorded")
        pids = store.pids()
        ballast = disks.fill_to(small_disk, 100)
        for sequence in range(50, 400):  # new queues, and three index files
            _send(producer, sent, sequence)
        eventually(lambda: "no disk space for queues or index" in store.log(), "reput has noticed")
        behind = store.control.load("dispatched")
        assert behind < store.control.load("wrote")
        store.replace("reput")  # its successor finds the disk as full
        eventually(lambda: store.log().count("no disk space for queues") > 1, "it waits as well")
        pids["reput"] = store.pid("reput")
        for sequence in range(400, 450):
            _send(producer, sent, sequence)
        ballast.unlink()
        check_store(store, sent, ("alpha", "beta"))
        assert store.pids() == pids, "nobody died"
        assert store.control.load("flush_error") == 0
        store.stop()
    with store:
        check_store(store, sent, ("alpha", "beta"))


def test_a_stop_does_not_wait_for_space(small_disk: Path) -> None:
    """What has no place in queues and index is dispatched by the next start."""
    with StoreProcess(small_disk / "store", **UNWATCHED, max_index_num=300) as store:
        sent = Sent()
        with Producer(store.path, timeout=10.0) as producer:
            for sequence in range(50):
                _send(producer, sent, sequence)
            ballast = disks.fill_to(small_disk, 100)
            for sequence in range(50, 400):
                _send(producer, sent, sequence)
        eventually(lambda: "no disk space for queues or index" in store.log(), "reput has noticed")
        store.stop()
        assert "actor does not stop" not in store.log()
        ballast.unlink()
        store.start()
        check_store(store, sent, ("alpha", "beta"))


def _send(producer: Producer, sent: Sent, sequence: int) -> None:
    """To one queue at first, then to others too."""
    topic, queue = ("alpha", 0) if sequence < 50 else (("alpha", "beta")[sequence % 2], 2)
    result = producer.send(
        topic, body_of(0, sequence), keys=f"a{sequence} b{sequence}", queue=queue
    )
    sent.answered(result, 0, sequence)


def test_readers_and_cleaning_on_a_disk_without_a_byte(small_disk: Path) -> None:
    """Cleaning by hand makes the space that the store needs to go on."""
    settings: dict[str, Any] = {
        "file_reserved_time_h": 0,
        "delete_when": "00" if 6 < time.localtime().tm_hour < 18 else "12",
        "flush_interval_commit_log_ms": 10,
        "flush_interval_consume_queue_ms": 10,
        "flush_consume_queue_thorough_interval_ms": 20,
        **UNWATCHED,
    }
    with (
        StoreProcess(small_disk / "store", **settings) as store,
        Producer(store.path, timeout=10.0) as producer,
    ):
        sent = Sent()
        for sequence in range(15_000):
            sent.answered(producer.send("alpha", body_of(0, sequence), queue=0), 0, sequence)
        disks.fill_to(small_disk, 100)
        following, error = fill_up(producer, sent, 15_000)
        assert error.status == PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        assert "No space left" in str(error)
        with Admin(store.path) as admin:
            admin.clean()
        eventually(lambda: store.control.load("files_removed"), "cleaning made space")
        accepted = _first_accepted(producer, sent, following)
        least = await_quiet_clean(store)
        check_store(store, sent, ("alpha",), start=least)
        assert sent.acks[-1].physical_offset >= least
        assert sent.acks[-1].sequence == accepted
